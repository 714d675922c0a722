/**
 * @module One domain. Until it is verified the page is the wizard: its step is the state of the domain, so whoever
 * leaves and returns continues there.
 */
import { Alert, Group, Stack, Text } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { DomainWire } from '#features/setup/domains/model.ts'
import { useDomain, useDomainEvents, useWarnings } from '../api/domains.ts'
import { useAllowed } from '../api/session.tsx'
import { TextLink } from '../parts/links.tsx'
import { Page } from '../parts/page.tsx'
import { QueryView } from '../parts/states.tsx'
import { Time } from '../parts/time.tsx'
import { useEscape } from '../parts/use-escape.ts'
import { DeleteDomain } from './domains/delete.tsx'
import { FormerKeys } from './domains/former-keys.tsx'
import { DomainStatus } from './domains/marks.tsx'
import { DomainRecords } from './domains/records.tsx'
import { DomainSettings } from './domains/settings.tsx'
import { isNew } from './domains/state.ts'
import { Steps } from './domains/steps.tsx'
import { TestEmail } from './domains/test-email.tsx'

export function DomainScreen() {
  const { id } = useParams({ from: '/domains/$id' })
  const query = useDomain(id)
  const navigate = useNavigate()
  useEscape(() => void navigate({ to: '/domains' }))
  useDomainEvents()
  return (
    <Page title={query.data?.domain ?? 'Domain'}>
      <nav aria-label="Path">
        <TextLink to="/domains">All domains</TextLink>
      </nav>
      <QueryView query={query}>{(domain) => <DomainView key={domain.id} domain={domain} />}</QueryView>
    </Page>
  )
}

function DomainView({ domain }: { readonly domain: DomainWire }) {
  const reason = useAllowed('developer')
  const warnings = useWarnings(domain.id)
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

/** What the state of the domain means for its mail, and what to do. */
function Consequence({ domain }: { readonly domain: DomainWire }) {
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
