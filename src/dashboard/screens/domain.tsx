/**
 * @module One domain. Until it is verified the page is the wizard: its step is the state of the domain, so whoever
 * leaves and returns continues there.
 */
import { List, Stack, Switch } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { Domain, SetDomainTrackingDomainRequest } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useChange, useData } from '../api/data.ts'
import { useAllowed, useSession } from '../api/session.tsx'
import { ConfirmDialog, DeleteButton } from '../parts/dialog.tsx'
import { bindChecked } from '../parts/form.tsx'
import { FormError } from '../parts/form-error.tsx'
import { Notice } from '../parts/notice.tsx'
import { RecordPage, Section } from '../parts/page.tsx'
import { useTestEmail } from '../parts/test-email.tsx'
import { Time } from '../parts/time.tsx'
import { DomainStatus, Steps } from './domains/marks.tsx'
import { Publishing } from './domains/publish.tsx'
import { useDomainEvents } from './domains/queries.ts'
import { DomainRecords } from './domains/records.tsx'
import { DomainReports } from './domains/reports.tsx'
import { SenderRules } from './domains/rules.tsx'
import { isNew, listFormerKeys, toWarningsKey } from './domains/state.ts'

interface DomainProps {
  readonly domain: Domain
}

function FormerKeys({ domain }: DomainProps) {
  const former = listFormerKeys(domain, Date.now())
  if (former.length === 0) return null
  return (
    <Section
      title="Former DKIM keys"
      description="Receivers may still check mail that these keys signed: leave their records in DNS for seven days."
    >
      <List size="sm">
        {former.map(({ names: [first, second], keepUntil, isRemovable }) => (
          <List.Item key={first}>
            <code>{first}</code> and <code>{second}</code>: {isRemovable ? 'may be removed since ' : 'keep until '}
            <Time iso={keepUntil} />.
          </List.Item>
        ))}
      </List>
    </Section>
  )
}

function TestEmail({ domain }: DomainProps) {
  const { user } = useSession()
  const test = useTestEmail(() => api.domains.sendTestEmail(domain.id, {}))
  return (
    <Section
      title="Test email"
      isCard
      description={`A short email from ${domain.domain} to your address, ${user.email}.`}
      action={test.button}
    >
      {test.outcome}
    </Section>
  )
}

const DeleteDomain = ({ domain }: DomainProps) => (
  <Section
    title="Delete"
    description="Nothing more is sent or received for this domain."
    action={
      <DeleteButton
        label="Delete this domain"
        title={`Delete ${domain.domain}?`}
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
    }
  />
)

export default function DomainScreen() {
  const { id } = useParams({ from: '/domains/$id' })
  const query = useData(read.domains.get(id))
  const domain = query.data
  useDomainEvents()
  return (
    <RecordPage
      title={domain?.domain ?? 'Domain'}
      status={domain && <DomainStatus domain={domain} />}
      description={domain && toConsequence(domain)}
      list={{ to: '/domains' }}
      listName="Domains"
      query={query}
    >
      {(data) => <DomainView key={data.id} domain={data} />}
    </RecordPage>
  )
}

/** What its state means for its mail. */
function toConsequence(domain: Domain): string | undefined {
  if (domain.covered_by)
    return `Its mail is sent, signed by ${domain.covered_by}. With SPF, return path and DKIM of its own, it signs itself.`
  if (isNew(domain))
    return 'Have these records published, or add them at your DNS provider. Until SPF, return path and DKIM are verified, mail is captured in the Sandbox.'
  return undefined
}

function DomainView({ domain }: DomainProps) {
  const reason = useAllowed('developer')
  const warnings = useQueryClient().getQueryData<readonly string[]>(toWarningsKey(domain.id)) ?? []
  // The steps stay until the page is left, so that the last one follows the moment of verification.
  const [isWizard] = useState(() => isNew(domain) && !domain.covered_by)
  return (
    <Stack gap="lg">
      {warnings.map((warning) => (
        <Notice key={warning} tone="warning" title="Is this the right name?">
          {warning}
        </Notice>
      ))}
      {reason !== undefined && <Notice>{reason}</Notice>}
      <Lost domain={domain} />
      {isWizard && <Steps current={isNew(domain) ? 2 : 3} />}
      {domain.status === 'verified' && <TestEmail domain={domain} />}
      <Publishing domain={domain} />
      <DomainRecords domain={domain} />
      {!isNew(domain) && <DomainReports domain={domain} />}
      <FormerKeys domain={domain} />
      {!isWizard && <SenderRules id={domain.id} />}
      <DomainSettings domain={domain} />
      <DeleteDomain domain={domain} />
    </Stack>
  )
}

/** A domain that was verified and has lost a record. */
function Lost({ domain }: DomainProps) {
  if (domain.covered_by || !domain.records_lost_at) return null
  return domain.status === 'pending' ? (
    <Notice tone="bad" title="This domain does not send">
      It has lacked a record for 72 hours, so its mail is rejected. It sends again as soon as the record is found.
    </Notice>
  ) : (
    <Notice tone="warning" title="A record of this domain is missing">
      Its mail is still sent for 72 hours. Restore the record before that.
    </Notice>
  )
}

const DomainSettings = ({ domain }: DomainProps) => (
  <Section title="Settings">
    <InboundSetting domain={domain} />
    <TrackingSetting domain={domain} />
  </Section>
)

function InboundSetting({ domain }: DomainProps) {
  const change = useChange((inbound_enabled: boolean) => api.domains.update(domain.id, { inbound_enabled }), 'domains')
  const reason = useAllowed('developer')
  return (
    <Stack gap="xs" maw={720}>
      <Switch
        label="Receive mail"
        description={`Mail to ${domain.domain} arrives here. This shows an MX record: mailboxes that the domain has elsewhere would get no more mail.`}
        {...bindChecked(domain.inbound_enabled, change.mutate)}
        disabled={reason !== undefined || change.isPending}
      />
      <FormError error={change.error} />
    </Stack>
  )
}

function TrackingSetting({ domain }: DomainProps) {
  const reason = useAllowed('developer')
  const [dialog, setDialog] = useState<'host' | 'remove'>()
  const close = () => setDialog(undefined)
  const current = domain.tracking_domain ?? null
  return (
    <Stack gap="xs" maw={720}>
      <Switch
        label="Own host for tracked links"
        description={
          current === null
            ? 'Tracked links lead through a host of yours, not of Tassis.'
            : `Links in tracked mail lead through ${current}${domain.tracking_domain_verified ? '' : ' once its record above is verified'}.`
        }
        checked={current !== null}
        disabled={reason !== undefined}
        onChange={() => setDialog(current === null ? 'host' : 'remove')}
      />
      {dialog === 'host' && (
        <ConfirmDialog
          title="Own host for tracked links"
          confirm="Use this host"
          fields={[
            {
              name: 'tracking_domain',
              label: 'Host',
              kind: 'code',
              hint: 'Any subdomain of yours that has no other records.',
              isRequired: true,
            },
          ]}
          initial={{ tracking_domain: `links.${domain.domain}` }}
          refreshes={['domains']}
          run={(body: SetDomainTrackingDomainRequest) => api.domains.setTrackingDomain(domain.id, body)}
          onClose={close}
        />
      )}
      {dialog === 'remove' && (
        <ConfirmDialog
          title={`Stop using ${current ?? 'the host'}?`}
          confirm="Stop using it"
          isDangerous
          refreshes={['domains']}
          run={() => api.domains.deleteTrackingDomain(domain.id)}
          onClose={close}
        >
          Future links use the host of Tassis. Links in older mail still need the CNAME record.
        </ConfirmDialog>
      )}
    </Stack>
  )
}
