/**
 * @module The list of domains, and one of them. Until it is verified the page is the wizard: its step is the state of the
 * domain, so whoever leaves and returns continues there. Only its first step, the name of a new domain, has a screen of
 * its own.
 */

import { List, Stack, Switch, VisuallyHidden } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { CreateDomainRequest, Domain, SetDomainTrackingDomainRequest } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { api, read } from '../api/client.ts'
import { useChange, useData } from '../api/data.ts'
import { useAllowed, useSession } from '../api/session.tsx'
import { ConfirmDialog, DeleteButton } from '../parts/dialog.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import { bindChecked, FormError } from '../parts/form.tsx'
import { NameLink, TextLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, useList } from '../parts/list.tsx'
import { Page, QueryView, RecordPage, Section } from '../parts/page.tsx'
import { Notice, StatusLabel } from '../parts/status.tsx'
import { type Column, column } from '../parts/table.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { useTestEmail } from '../parts/test-email.tsx'
import { Time } from '../parts/time.tsx'
import { DomainStatus, Steps } from './domains/marks.tsx'
import { Publishing } from './domains/publish.tsx'
import { DomainRecords } from './domains/records.tsx'
import { DomainReports, SenderRules } from './domains/reports.tsx'
import { isNew, listFormerKeys, listMarks, listNames, RECORDS, toTypedDomain, toWarningsKey } from './domains/state.ts'
import { useDomainEvents } from './queries.ts'

const toMissing = (domain: Domain): string =>
  listMarks(domain)
    .flatMap(({ key, isVerified }) => (isVerified ? [] : [RECORDS[key].name]))
    .join(', ')

/** Plain for the role support, which may read no more than the list. */
const DomainName = ({ domain: { id, domain } }: { readonly domain: Domain }) =>
  useSession().role === 'support' ? domain : <NameLink to="/domains/$id" params={{ id }} title={domain} name={domain} />

const COLUMNS: readonly Column<Domain>[] = [
  column('Domain', { width: '28%' }, (domain) => <DomainName domain={domain} />),
  column('Status', { isWrapped: true, phone: 'bare' }, (domain) => <DomainStatus domain={domain} />),
  column('Missing records', { isWrapped: true }, (domain) => toMissing(domain) || 'None'),
  column('Inbound mail', { width: '14%', phone: 'none' }, ({ inbound_enabled: isOn }) => (isOn ? 'On' : 'Off')),
  column('Added', { width: '12%', phone: 'none' }, ({ created_at: at }) => <Time iso={at} />),
]

export default function DomainsScreen() {
  const list = useList({ read: read.domains.list })
  useDomainEvents()
  return (
    <ListScreen
      title="Domains"
      list={list}
      columns={COLUMNS}
      noun="domain"
      action={<ActionLink needs="developer" to="/domains/new" label="Add a domain" />}
      nothing={{
        title: 'Your domains will appear here',
        text: 'Add the domain of your sender address, such as example.com, then a few DNS records. Until it is verified, its mail is captured in the Sandbox.',
        command: 'tassis domains add example.com',
      }}
    />
  )
}

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

export function DomainScreen() {
  const { id } = useParams({ from: '/domains/$id' })
  return <OneDomain key={id} id={id} />
}

function OneDomain({ id }: { readonly id: string }) {
  const query = useData(read.domains.get(id))
  const domain = query.data
  const test = useTestEmail(() => api.domains.sendTestEmail(id, {}))
  useDomainEvents()
  return (
    <RecordPage
      title={domain?.domain ?? 'Domain'}
      status={domain && <DomainStatus domain={domain} />}
      description={domain && toConsequence(domain)}
      list={{ to: '/domains' }}
      listName="Domains"
      query={query}
      action={domain?.status === 'verified' && test.button}
    >
      {(data) => (
        <>
          {test.outcome}
          <DomainView domain={data} />
        </>
      )}
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
      {domain.dkim_key_bits < 2048 && (
        <Notice tone="warning" title="The DKIM key is weak">
          It has {domain.dkim_key_bits.toLocaleString()} bits, and Gmail asks for 2,048. It keeps signing; the operator
          or the API can rotate it.
        </Notice>
      )}
      <Lost domain={domain} />
      {isWizard && <Steps current={isNew(domain) ? 2 : 3} />}
      {isWizard ? <Setup domain={domain} /> : <DomainTabs domain={domain} />}
    </Stack>
  )
}

/** What receivers say, worst first, beside the set-up, once there may be mail. */
function DomainTabs({ domain }: DomainProps) {
  const { tab = 'setup' } = useSearch({ from: '/domains/$id' })
  const navigate = useNavigate()
  const reports = useData(read.domains.getReport(domain.id))
  const rules = useData(read.domains.getRules(domain.id))
  return (
    <Tabs
      label="Pages of the domain"
      value={tab}
      onChange={(next) => void navigate({ to: '/domains/$id', params: { id: domain.id }, search: { tab: next } })}
      tabs={[
        { name: 'setup', label: 'Setup', panel: <Setup domain={domain} /> },
        {
          name: 'reports',
          label: toTabLabel('Reports', reports.data?.findings[0]?.level === 'bad'),
          panel: <QueryView query={reports}>{(report) => <DomainReports report={report} />}</QueryView>,
        },
        {
          name: 'rules',
          label: toTabLabel('Sender rules', rules.data && rules.data.counts.broken > 0),
          panel: <QueryView query={rules}>{(data) => <SenderRules rules={data} />}</QueryView>,
        },
      ]}
    />
  )
}

const toTabLabel = (label: string, isBad = false) =>
  isBad ? (
    <StatusLabel tone="warning">
      {label}
      <VisuallyHidden>, with problems</VisuallyHidden>
    </StatusLabel>
  ) : (
    label
  )

/** What is missing comes first: the help with records, or what became of them. */
function Setup({ domain }: DomainProps) {
  const [isMissing] = useState(() => !domain.covered_by && (isNew(domain) || Boolean(domain.records_lost_at)))
  return (
    <Stack gap="lg">
      {isMissing && <Publishing domain={domain} />}
      <DomainRecords domain={domain} />
      {!isMissing && <Publishing domain={domain} />}
      <FormerKeys domain={domain} />
      <Section title="Settings">
        <InboundSetting domain={domain} />
        <TrackingSetting domain={domain} />
      </Section>
      <DeleteDomain domain={domain} />
    </Stack>
  )
}

/** A domain that was verified and has lost a record. */
function Lost({ domain }: DomainProps) {
  if (domain.covered_by || !domain.records_lost_at) return null
  const lost = listNames(domain.lost_records ?? [])
  return domain.status === 'pending' ? (
    <Notice tone="bad" title="This domain does not send">
      For 72 hours it lacked a record that sending needs, so its mail is rejected. Missing in DNS: {lost}. It sends
      again once DNS has all of them.
    </Notice>
  ) : (
    <Notice tone="warning" title={`Missing in DNS: ${lost}`}>
      Its mail is still sent until <Time iso={domain.sends_until ?? domain.records_lost_at} />. Restore what is missing
      before that.
    </Notice>
  )
}

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

export function DomainNewScreen() {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const [isKnown, setIsKnown] = useState(false)
  return (
    <Page title="Add a domain" back={{ label: 'Domains', target: { to: '/domains' } }}>
      <Steps current={1} />
      <FieldForm
        maw={480}
        needs="developer"
        label="Continue"
        isFocused
        fields={[
          {
            name: 'domain',
            label: 'Domain',
            kind: 'code',
            hint: 'What comes after the @ of your sender address. A subdomain, such as mail.example.com, has a reputation of its own.',
            placeholder: 'example.com',
            isRequired: true,
          },
        ]}
        refreshes={[['domains', 'list']]}
        run={async ({ domain }: CreateDomainRequest) => {
          setIsKnown(false)
          return await api.domains.create({ domain: toTypedDomain(domain) }).catch((error) => {
            setIsKnown(error instanceof TassisError && error.code === 'domain_exists')
            throw error
          })
        }}
        onDone={({ data, warnings = [] }) => {
          queries.setQueryData(toWarningsKey(data.id), warnings)
          return navigate({ to: '/domains/$id', params: { id: data.id } })
        }}
        actions={isKnown && <TextLink to="/domains">Find it among your domains</TextLink>}
      />
    </Page>
  )
}
