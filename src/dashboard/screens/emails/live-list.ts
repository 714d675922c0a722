/** @module The list of emails, whose states also follow from the events. */

import { useWindowEvent } from '@mantine/hooks'
import type { UseQueryResult } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import type { EmailSummary, Event } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { type PageOf, usePage } from '../../api/data.ts'
import { refetch, useLiveEvents, useRefreshSoon } from '../../api/live.tsx'
import { type LiveRows, useLiveRows } from '../../parts/rows.ts'

export interface LiveList extends LiveRows<EmailSummary> {
  readonly query: UseQueryResult<PageOf<EmailSummary>>
}

export function useLiveList(values: Parameters<typeof read.emails.list>[0]): LiveList {
  const key = JSON.stringify(values)
  const query = usePage(read.emails.list(values))
  const list = useLiveRows(query, key, ({ created_at: at }) => at)
  const refreshSoon = useRefreshSoon(() => refetch(query))
  const [statuses, setStatuses] = useState<ReadonlyMap<string, string>>(new Map())
  useLiveEvents((event) => {
    if (event.email_id === null) return
    const row = list.page?.data.find(({ id }) => id === event.email_id)
    const status = row && toRowStatus(row, event)
    if (row && status) setStatuses((before) => new Map(before).set(row.id, status))
    refreshSoon()
  })
  useEffect(() => {
    // What was read is newer than the events before it.
    if (query.dataUpdatedAt > 0) setStatuses(new Map())
  }, [query.dataUpdatedAt])
  useWindowEvent('visibilitychange', () => {
    if (document.visibilityState === 'visible') refreshSoon()
  })
  const data = list.page?.data.map((row) => ({ ...row, status: statuses.get(row.id) ?? row.status }))
  return { ...list, query, page: list.page && data && { ...list.page, data } }
}

const STATUS_AFTER: Readonly<Record<string, string>> = {
  queued: 'queued',
  scheduled: 'scheduled',
  cancelled: 'cancelled',
  sent: 'sent',
  delivered: 'sent',
  deferred: 'queued',
  bounced: 'bounced',
  failed: 'failed',
  rejected: 'rejected',
  uncertain: 'uncertain',
}

/** The status of an email after an event; undefined when it depends on other recipients. */
function toRowStatus(row: EmailSummary, { event_type: type }: Event): string | undefined {
  return countRecipients(row) === 1 ? STATUS_AFTER[type] : undefined
}

/** `to` joins the addresses; their names are not in it. */
export const countRecipients = ({ to, cc, bcc }: Pick<EmailSummary, 'to' | 'cc' | 'bcc'>): number =>
  (to === '' ? 0 : to.split(', ').length) + cc.length + bcc.length
