/**
 * @module One domain. Until it is verified the page is the wizard: its step is the state of the domain, so whoever
 * leaves and returns continues there.
 */
import { Alert, Group, List, Stack, Text } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { Domain } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useChange, useData } from '../api/data.ts'
import { useAllowed, useSession } from '../api/session.tsx'
import { ActionButton } from '../parts/buttons.tsx'
import { DeleteButton } from '../parts/dialog.tsx'
import { FormError } from '../parts/form-error.tsx'
import { TextLink } from '../parts/links.tsx'
import { RecordPage, Section } from '../parts/page.tsx'
import { Time } from '../parts/time.tsx'
import { DomainStatus, Steps } from './domains/marks.tsx'
import { useDomainEvents } from './domains/queries.ts'
import { DomainRecords } from './domains/records.tsx'
import { DomainSettings } from './domains/settings.tsx'
import { isNew, listFormerKeys, toWarningsKey } from './domains/state.ts'

function FormerKeys({ domain }: { readonly domain: Domain }) {
  const former = listFormerKeys(domain, Date.now())
  if (former.length === 0) return null
  return (
    <Section title="Former DKIM keys" order={3}>
      <Text size="sm">
        Receivers may still check mail that these keys signed, so leave their records in DNS for seven days.
      </Text>
      <ul>
        {former.map(({ names, keepUntil, isRemovable }) => (
          <li key={keepUntil + names.join()}>
            {names.map((name, index) => (
              <span key={name}>
                {index > 0 && ' and '}
                <code>{name}</code>
              </span>
            ))}
            : {isRemovable ? 'may be removed since ' : 'keep until '}
            <Time iso={keepUntil} />
          </li>
        ))}
      </ul>
    </Section>
  )
}

function TestEmail({ domain }: { readonly domain: Domain }) {
  const { user } = useSession()
  const send = useChange(() => api.domains.sendTestEmail(domain.id, {}))
  // Stays when another one fails.
  const [sentId, setSentId] = useState<string>()
  return (
    <Section title="Test email">
      <Text>
        Sends a short email from {domain.domain} to your own address, {user.email}.
      </Text>
      <ActionButton
        needs="developer"
        loading={send.isPending}
        onClick={() => send.mutate(undefined, { onSuccess: ({ data }) => setSentId(data.id) })}
        variant={sentId === undefined ? 'filled' : 'default'}
      >
        {sentId === undefined ? 'Send a test email' : 'Send another'}
      </ActionButton>
      <div role="status">
        {sentId !== undefined && (
          <Text>
            The test email is on its way.{' '}
            <TextLink to="/emails/$id" params={{ id: sentId }} underline="always">
              See what happens to it
            </TextLink>
          </Text>
        )}
      </div>
      <FormError error={send.error} />
    </Section>
  )
}

const DeleteDomain = ({ domain }: { readonly domain: Domain }) => (
  <Section title="Delete">
    <Text maw={720}>
      Nothing more can be sent from {domain.domain} or received for it. Scheduled mail is cancelled; mail already queued
      is still signed and sent.
    </Text>
    <DeleteButton
      label="Delete this domain"
      title={`Delete ${domain.domain}?`}
      confirm="Delete"
      typed={domain.domain}
      remove={() => api.domains.delete(domain.id)}
      refreshes={[['domains', 'list']]}
      leadsTo={{ to: '/domains' }}
    >
      <List size="sm">
        <List.Item>Scheduled mail of the domain is cancelled.</List.Item>
        <List.Item>Queued mail is still signed and sent. Leave the DNS records until it has ended.</List.Item>
        <List.Item>If you add the domain again, it gets a new DKIM key.</List.Item>
      </List>
    </DeleteButton>
  </Section>
)

export default function DomainScreen() {
  const { id } = useParams({ from: '/domains/$id' })
  const query = useData(read.domains.get(id))
  useDomainEvents()
  return (
    <RecordPage
      title={query.data?.domain ?? 'Domain'}
      list={{ to: '/domains' }}
      listName="All domains"
      query={query}
      missing="This account has no domain with this id. It may have been deleted, or belong to another account."
    >
      {(domain) => <DomainView key={domain.id} domain={domain} />}
    </RecordPage>
  )
}

function DomainView({ domain }: { readonly domain: Domain }) {
  const reason = useAllowed('developer')
  const warnings = useQueryClient().getQueryData<readonly string[]>(toWarningsKey(domain.id)) ?? []
  // The steps stay until the page is left, so that the last one follows the moment of verification.
  const [isWizard] = useState(() => isNew(domain))
  return (
    <Stack gap="xl">
      <Stack gap="sm">
        <Group gap="lg">
          <Text component="div" fw={600}>
            <DomainStatus domain={domain} />
          </Text>
          <Text size="sm">
            Added <Time iso={domain.created_at} />
          </Text>
        </Group>
        <Consequence domain={domain} />
        {warnings.map((warning) => (
          <Alert key={warning} color="yellow" title="Is this the right name?">
            {warning}
          </Alert>
        ))}
        {reason !== undefined && <Alert color="gray">{reason}</Alert>}
      </Stack>
      {isWizard && <Steps current={isNew(domain) ? 2 : 3} />}
      {domain.status === 'verified' && <TestEmail domain={domain} />}
      <DomainRecords domain={domain} />
      <FormerKeys domain={domain} />
      <DomainSettings domain={domain} />
      <DeleteDomain domain={domain} />
    </Stack>
  )
}

function Consequence({ domain }: { readonly domain: Domain }) {
  if (domain.covered_by)
    return (
      <Text maw={720}>
        Mail of this domain is sent, signed by {domain.covered_by}, which is verified. Once SPF, return path and DKIM
        below are verified, it is signed by this domain itself.
      </Text>
    )
  if (isNew(domain))
    return (
      <Text maw={720}>
        Publish the records below at the provider of your DNS. Until SPF, return path and DKIM are verified, mail of
        this domain is captured and not sent.
      </Text>
    )
  if (domain.status === 'pending')
    return (
      <Alert color="red" title="This domain does not send">
        It has lacked a record for 72 hours, so its mail is rejected. Restore the record below: it sends again as soon
        as the record is found.
      </Alert>
    )
  if (domain.records_lost_at)
    return (
      <Alert color="yellow" title="A record of this domain is missing">
        Its mail is still sent for 72 hours. Restore the record below before that.
      </Alert>
    )
  return null
}
