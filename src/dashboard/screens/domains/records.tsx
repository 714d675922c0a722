/** @module The DNS records of a domain: what to publish, what DNS has now, checked again while one is missing. */
import { Anchor, Group, Switch, VisuallyHidden } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useMemo, useState } from 'react'
import type { Domain, DomainDns } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { api, read } from '../../api/client.ts'
import { readAgain, useData, useStore } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { SmallAction } from '../../parts/buttons.tsx'
import { CopyText } from '../../parts/copy.tsx'
import { bindChecked, FormError } from '../../parts/form.tsx'
import { QueryView, Section } from '../../parts/page.tsx'
import { Notice, StateLabel, StatusLabel } from '../../parts/status.tsx'
import { type Column, column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import {
  type DnsRecordView,
  describeKept,
  hasImproved,
  isDone,
  isUnproven,
  listNames,
  listRecords,
  RECORD_STATES,
  RECORDS,
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
  const columns = useMemo(() => (data ? toColumns(domain, data, isAbsolute) : []), [domain, data, isAbsolute])
  const isChecking = query.isFetching || verify.isPending
  return (
    <Section
      title="DNS records"
      description={data && <Provider dns={data} />}
      action={
        <SmallAction reason={isChecking ? 'DNS is being asked now.' : undefined} onClick={checkNow} label="Check now" />
      }
    >
      <QueryView query={query}>
        {(dns) => (
          <>
            {dns.warnings.map((warning) => (
              <Notice key={warning} tone="bad" title="These records cannot be used yet">
                {warning}
              </Notice>
            ))}
            {isUnproven(domain, dns) && (
              <Notice tone="warning" title="DNS does not have all records of this domain">
                It counts as verified by an earlier check. Add what is missing: when the next checks miss a record that
                sending needs, the domain sends for 72 more hours.
              </Notice>
            )}
            <FormError error={query.error ?? verify.error} />
            <Verified domain={domain} dns={dns} />
            <div className="list">
              <DataTable
                label="DNS records"
                columns={columns}
                rows={listRecords(dns)}
                isWide
                toKey={({ key }) => key}
                toMarks={({ key, status }) => ({ 'data-record': key, 'data-state': status })}
              />
              <div className="list-foot">
                <span>
                  {isDone(domain, dns) ? 'All required records are verified.' : 'Checked every 10 seconds.'} Last check:{' '}
                  <Time iso={new Date(dataUpdatedAt).toISOString()} hasSeconds />.
                </span>
                <Group gap="md">
                  <Switch size="xs" label="Full names" {...bindChecked(isAbsolute, setIsAbsolute)} />
                  <Anchor href={read.domains.getZoneFile(domain.id).url} download>
                    Zone file
                  </Anchor>
                </Group>
              </div>
            </div>
          </>
        )}
      </QueryView>
    </Section>
  )
}

function Provider({ dns: { provider, nameservers, zone } }: { readonly dns: DomainDns }) {
  if (nameservers.length === 0)
    return `No name servers of ${zone} were found. Check its spelling, and that it is registered.`
  if (provider === null)
    return `DNS of ${zone} is at ${nameservers.join(', ')}. TTL: ${TTL_SECONDS}, or the default there.`
  const { name, edit_url: editUrl } = provider
  return (
    <>
      DNS of {zone} is at {name}. Names are as typed there; TTL: {TTL_SECONDS}, or the default.{' '}
      {editUrl?.startsWith('https://') && (
        <Anchor inherit href={editUrl} target="_blank" rel="noreferrer" underline="always">
          Open {name} (new tab)
        </Anchor>
      )}
    </>
  )
}

/** Announces what turned green: the sentence is read out whenever it changes. */
function Verified({ domain, dns }: { readonly domain: Domain; readonly dns: DomainDns }) {
  const found = listRecords(dns).flatMap(({ key, status }) => (status === 'verified' ? [key] : []))
  return (
    <VisuallyHidden role="status">
      {domain.status === 'verified' && !domain.records_lost_at && `${domain.domain} is verified. `}
      {found.length > 0 && `Verified records: ${listNames(found)}`}
    </VisuallyHidden>
  )
}

const toColumns = (domain: Domain, dns: DomainDns, isAbsolute: boolean): readonly Column<DnsRecordView>[] => [
  column('Record', { width: '19%', isWrapped: true }, ({ key }) => (
    <>
      <strong>{RECORDS[key].name}</strong>
      <div className="cell-note">{RECORDS[key].purpose}</div>
    </>
  )),
  column('Type', { width: '4.5rem' }, ({ type }) => type),
  column('Name', { width: '24%', isWrapped: true }, (record) => <Name {...{ record, dns, isAbsolute }} />),
  column('Value', { isWrapped: true }, (record) => <Value record={record} dns={dns} />),
  column('Status', { width: '11rem', phone: 'aside' }, ({ key, status, inherited_from: parent }) => {
    if (status === 'missing' && (key === 'dkim_ed25519' || key === 'tls_reports'))
      return <StatusLabel tone="neutral">Optional</StatusLabel>
    if (status === 'missing' && domain.lost_records?.includes(key))
      return <StatusLabel tone="warning">Lost</StatusLabel>
    return <StateLabel state={{ ...RECORD_STATES[status], ...(parent && { word: 'Inherited' }) }} />
  }),
]

interface CellProps {
  readonly record: DnsRecordView
  readonly dns: DomainDns
}

function Name({ record, dns, isAbsolute }: CellProps & { readonly isAbsolute: boolean }) {
  const name = isAbsolute ? record.name : record.host
  return (
    <>
      {name === '' ? 'Leave empty' : <CopyText value={name} what={`name of the ${RECORDS[record.key].name} record`} />}
      {record.zone !== dns.zone && <div className="cell-note">In the zone {record.zone}.</div>}
    </>
  )
}

/** What to publish, and below it what the check found and what stays. */
function Value({ record, dns }: CellProps) {
  const { key, found, status, priority, name, further_values: further = [] } = record
  const notes = [describeKept(record), status !== 'verified' && toFinding(record)].filter(Boolean)
  return (
    <>
      <CopyText value={toPublish(record)} what={`value of the ${RECORDS[key].name} record`} />
      {further.map((value) => (
        <CopyText key={value} value={value} what={`value of a further ${RECORDS[key].name} record`} />
      ))}
      {priority !== undefined && <div className="cell-note">Priority {priority}.</div>}
      {status === 'wrong' &&
        [...new Set(found)]
          .filter((text) => !record.detail.includes(text))
          .map((text) => (
            <div key={text} className="cell-note">
              Found: <code>{text}</code>
            </div>
          ))}
      {notes.map((note) => (
        <div key={String(note)} className="cell-note">
          {note}
        </div>
      ))}
      {key === 'spf' && dns.domain_spf !== null && (
        <div className="cell-note">
          Only for {name}. The record of {dns.domain} stays: <code>{dns.domain_spf}</code>
        </div>
      )}
    </>
  )
}
