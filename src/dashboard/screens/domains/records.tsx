/** @module The DNS records of a domain: what to publish, what DNS has now, checked again while one is missing. */
import { Alert, Anchor, Button, Group, Paper, Stack, Switch, Text, Title, VisuallyHidden } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useId, useRef, useState } from 'react'
import type { Domain, DomainDns } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { api, read } from '../../api/client.ts'
import { readAgain, useData, useStore } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { Copy } from '../../parts/copy.tsx'
import { bindChecked } from '../../parts/form.tsx'
import { FormError } from '../../parts/form-error.tsx'
import { QueryView, Section } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { formatTime } from '../../parts/time.tsx'
import {
  type DnsRecordView,
  describeKept,
  hasImproved,
  isDone,
  isUnproven,
  listRecords,
  RECORD_NAMES,
  RECORD_PURPOSES,
  RECORD_STATES,
  toFinding,
  toPublish,
} from './state.ts'

const TTL_SECONDS = 3600

/** While records are missing, DNS is checked this often. */
const CHECK_INTERVAL_MS = 10_000

/** What DNS has now; read again while the page is visible, until nothing more is to be waited for. A 429 is respected. */
const useDomainDns = (domain: Domain) =>
  useData(read.domains.getDns(domain.id), {
    staleTime: CHECK_INTERVAL_MS,
    refetchInterval: ({ state: { data, error } }) => {
      if (data && isDone(domain, data.data) && error === null) return false
      const waitMs = error instanceof TassisError ? (error.retryAfter ?? 0) * 1000 : 0
      return Math.max(CHECK_INTERVAL_MS, waitMs)
    },
  })

/** Has the service check DNS and store the results, for the domain or for its tracking host. */
const useVerify = ({ id, tracking_domain: trackingDomain }: Domain) =>
  useStore(
    async (): Promise<{ readonly data: Domain }> => {
      const { data } = await api.domains.verify(id)
      return trackingDomain ? api.domains.verifyTrackingDomain(id) : { data: data.domain }
    },
    () => read.domains.get(id),
    ['domains', 'list'],
  )

export function DomainRecords({ domain }: { readonly domain: Domain }) {
  const query = useDomainDns(domain)
  const queries = useQueryClient()
  const verify = useVerify(domain)
  const isReader = useAllowed('developer') !== undefined
  const [isAbsolute, setIsAbsolute] = useState(false)
  const { data, dataUpdatedAt } = query
  // biome-ignore lint/correctness/useExhaustiveDependencies: once after each check
  useEffect(() => {
    if (!data || !hasImproved(domain, data)) return
    // Whoever may not have it stored waits for the scheduled check.
    if (isReader) readAgain(queries, ['domains', 'get', domain.id])
    else if (!verify.isPending) verify.mutate(undefined)
  }, [dataUpdatedAt])
  const checkNow = async () => {
    if (!isReader) await verify.mutateAsync(undefined).catch(() => undefined)
    await query.refetch()
  }
  return (
    <Section title="DNS records">
      <QueryView query={query}>
        {(dns) => (
          <>
            {dns.warnings.map((warning) => (
              <Alert key={warning} color="red" title="These records cannot be used yet">
                {warning}
              </Alert>
            ))}
            <Provider dns={dns} />
            {isUnproven(domain, dns) && (
              <Alert color="yellow" title="DNS does not have all records of this domain">
                It counts as verified, by an earlier check or without one. Publish what is missing below: when the next
                checks miss a record that sending needs, the domain sends for 72 more hours.
              </Alert>
            )}
            <Group>
              <Switch label="Show full names" {...bindChecked(isAbsolute, setIsAbsolute)} />
              <Button component="a" href={read.domains.getZoneFile(domain.id).url} download variant="default" size="xs">
                Download as a zone file
              </Button>
            </Group>
            <CheckBar
              isDone={isDone(domain, dns)}
              checkedAt={dataUpdatedAt}
              isChecking={query.isFetching || verify.isPending}
              onCheck={checkNow}
            />
            {(query.error ?? verify.error) && (
              <div>
                <Text size="sm">The last check failed; what follows is older.</Text>
                <FormError error={query.error ?? verify.error} />
              </div>
            )}
            <Changes domain={domain} dns={dns} />
            {listRecords(dns).map((record) => (
              <RecordCard key={record.key} record={record} dns={dns} isAbsolute={isAbsolute} />
            ))}
          </>
        )}
      </QueryView>
    </Section>
  )
}

function Provider({ dns: { provider, nameservers, zone } }: { readonly dns: DomainDns }) {
  const servers = nameservers.join(', ')
  if (nameservers.length === 0)
    return (
      <Text maw={720}>
        No name servers of {zone} were found: check the spelling of the domain, and that it is registered.
      </Text>
    )
  if (provider === null)
    return (
      <Text maw={720}>
        DNS of {zone} is at {servers}. Names are shown relative to {zone}; if your provider wants full names, switch to
        them.
      </Text>
    )
  const { name, edit_url: editUrl } = provider
  return (
    <Text maw={720}>
      DNS of {zone} is at <strong>{name}</strong> ({servers}). Names are shown as they are typed there.{' '}
      {editUrl?.startsWith('https://') && (
        <Anchor href={editUrl} target="_blank" rel="noreferrer" underline="always">
          Edit the records at {name} (new tab)
        </Anchor>
      )}
    </Text>
  )
}

interface CheckBarProps {
  readonly isDone: boolean
  /** Milliseconds. */
  readonly checkedAt: number
  readonly isChecking: boolean
  onCheck(): unknown
}

const CheckBar = ({ isDone: isAllVerified, checkedAt, isChecking, onCheck }: CheckBarProps) => (
  <Group>
    <Text size="sm">
      {isAllVerified ? 'Everything is verified' : 'Checks every 10 seconds'}; last check{' '}
      {formatTime(new Date(checkedAt).toISOString())}
    </Text>
    <Button variant="default" size="xs" onClick={() => onCheck()} disabled={isChecking}>
      Check now
    </Button>
  </Group>
)

/** Announces which records turned green, and the verification of the domain. */
function Changes({ domain, dns }: { readonly domain: Domain; readonly dns: DomainDns }) {
  const before = useRef<{ readonly keys: ReadonlySet<string>; readonly status: string }>(undefined)
  const [text, setText] = useState('')
  useEffect(() => {
    const earlier = before.current
    const keys = listRecords(dns).flatMap(({ key, status }) => (status === 'verified' ? [key] : []))
    before.current = { keys: new Set(keys), status: domain.status }
    if (!earlier) return
    const sentences = keys.filter((key) => !earlier.keys.has(key)).map((key) => `${RECORD_NAMES[key]} is verified.`)
    if (earlier.status !== 'verified' && domain.status === 'verified') sentences.push(`${domain.domain} is verified.`)
    if (sentences.length > 0) setText(sentences.join(' '))
  }, [dns, domain.status, domain.domain])
  return (
    <VisuallyHidden role="status" aria-live="polite">
      {text}
    </VisuallyHidden>
  )
}

interface RecordCardProps {
  readonly record: DnsRecordView
  readonly dns: DomainDns
  readonly isAbsolute: boolean
}

function RecordCard({ record, dns, isAbsolute }: RecordCardProps) {
  const { key, type, found, status, priority } = record
  const id = useId()
  const label = RECORD_NAMES[key]
  const name = isAbsolute ? record.name : record.host
  const value = toPublish(record)
  return (
    <Paper withBorder p="md" maw={860} component="section" aria-labelledby={id} data-record={key} data-state={status}>
      <Stack gap="sm">
        <Group justify="space-between" gap="xs">
          <Title order={3} size="h4" id={id}>
            {label}
          </Title>
          <StatusLabel tone={RECORD_STATES[status].tone}>{RECORD_STATES[status].word}</StatusLabel>
        </Group>
        <Text size="sm">{RECORD_PURPOSES[key]}</Text>
        <dl className="fields">
          <Field label="Type">{type}</Field>
          <Field label="Name" copy={name !== '' && <Copy value={name} what={`name of the ${label} record`} />}>
            {name === '' ? 'Leave this field empty' : <code>{name}</code>}
            {record.zone !== dns.zone && ` in the zone ${record.zone}`}
          </Field>
          <Field label="Value" copy={<Copy value={value} what={`value of the ${label} record`} />}>
            <code>{value}</code>
          </Field>
          {priority !== undefined && <Field label="Priority">{priority}</Field>}
          <Field label="TTL">{TTL_SECONDS} (or the default of your provider)</Field>
          {status !== 'verified' && (
            <Field label="Found">
              {found.length === 0 ? 'Nothing' : [...new Set(found)].map((text) => <Found key={text} text={text} />)}
            </Field>
          )}
        </dl>
        <Notes record={record} dns={dns} />
      </Stack>
    </Paper>
  )
}

/** Records that stay, and what the check found. */
function Notes({ record, dns }: { readonly record: DnsRecordView; readonly dns: DomainDns }) {
  const kept = describeKept(record)
  return (
    <>
      {kept && <Text size="sm">{kept}</Text>}
      {record.key === 'spf' && dns.domain_spf !== null && (
        <Text size="sm">
          The SPF record of {dns.domain} itself stays as it is: <code>{dns.domain_spf}</code>. This one is only for{' '}
          {record.name}.
        </Text>
      )}
      {record.status !== 'verified' && <Text size="sm">{toFinding(record)}</Text>}
    </>
  )
}

const Found = ({ text }: { readonly text: string }) => (
  <div>
    <code>{text}</code>
  </div>
)

interface FieldProps {
  readonly label: string
  readonly copy?: ReactNode
  readonly children: ReactNode
}

const Field = ({ label, copy, children }: FieldProps) => (
  <div className="field">
    <dt className="field-name">{label}</dt>
    <dd className="field-value">
      <div className="field-text">{children}</div>
      {copy}
    </dd>
  </div>
)
