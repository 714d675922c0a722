/** @module Queries and changes of broadcasts and their drafts. */
import { useMutation } from '@tanstack/react-query'
import type { SendResponse } from '#features/sending/accept/model.ts'
import type {
  BroadcastRecord,
  BroadcastRow,
  EngagementRecord,
  RecipientCountRecord,
} from '#features/sending/broadcasts/read-routes.ts'
import type { NewsletterRecord, NewsletterRow } from '#features/sending/newsletters/model.ts'
import type { NewsletterPreviewRecord } from '#features/sending/newsletters/preview.ts'
import type { DomainWire } from '#features/setup/domains/model.ts'
import type { TemplateRow } from '#features/setup/templates/model.ts'
import { toListPath } from './audience.ts'
import { request, requestData } from './client.ts'
import { useAll, useChange, usePage, useRecord, useStore } from './data.ts'
import { useLiveState } from './live.tsx'

const PAGE_SIZE = 25
const MAX_PAGE_SIZE = 100
const POLL_MS = 2000
/** Results of one that has ended change only by what readers do. */
const SLOW_POLL_MS = 30_000

export const toDraftPath = (id: string, rest = ''): string => `/v1/newsletters/${encodeURIComponent(id)}${rest}`
const toBroadcastPath = (id: string, rest = ''): string => `/v1/broadcasts/${encodeURIComponent(id)}${rest}`

const OPEN_STATES: readonly string[] = ['waiting', 'sending', 'paused', 'cancelling', 'failing']
/** Whether it changes within seconds. */
const isMoving = ({ state }: BroadcastRow): boolean => OPEN_STATES.includes(state)

export const useBroadcasts = (page: number) =>
  usePage<BroadcastRow>(
    ['broadcasts', 'page'],
    '/v1/broadcasts',
    { page, per_page: PAGE_SIZE },
    { refetchInterval: ({ state }) => (state.data?.data.some(isMoving) ? POLL_MS : SLOW_POLL_MS) },
  )

export const DRAFTS_KEY = ['drafts', 'page']
export const draftKey = (id: string) => ['drafts', 'one', id]

export const useDrafts = (page: number, pageSize = PAGE_SIZE) =>
  usePage<NewsletterRow>(DRAFTS_KEY, '/v1/newsletters', { status: 'draft', page, per_page: pageSize })

export const useBroadcast = (id: string) =>
  useRecord<BroadcastRecord>(['broadcasts', 'one', id], toBroadcastPath(id), {
    refetchInterval: ({ state }) => {
      const { data } = state
      const hasOpenMail = data && (data.emails['queued'] ?? 0) + (data.emails['processing'] ?? 0) > 0
      return data && (isMoving(data) || hasOpenMail) ? POLL_MS : SLOW_POLL_MS
    },
  })

/** Counting takes seconds for a large broadcast, so it is not repeated often. */
export const useEngagement = (id: string) => {
  const isPolling = useLiveState() === 'polling'
  return useRecord<EngagementRecord>(['engagement', id], toBroadcastPath(id, '/engagement'), {
    staleTime: SLOW_POLL_MS,
    refetchInterval: isPolling ? false : SLOW_POLL_MS,
    retry: false,
  })
}

export const useControl = (id: string) =>
  useChange(
    (verb: 'pause' | 'resume' | 'cancel') => request('POST', `/v1/operations/${encodeURIComponent(id)}/${verb}`),
    ['broadcasts'],
    ['drafts'],
  )

export const useDraft = (id: string) => useRecord<NewsletterRecord>(draftKey(id), toDraftPath(id))

export interface DraftFields {
  readonly list_id?: string
  readonly subject?: string
  readonly from_address?: string
  readonly reply_to?: string | null
  readonly html_body?: string | null
  readonly text_body?: string | null
  readonly template_id?: string | null
}

/** @param id the draft to change; undefined creates one */
export const useSaveDraft = (id: string | undefined) =>
  useStore(
    (body: DraftFields) =>
      id === undefined
        ? requestData<NewsletterRecord>('POST', '/v1/newsletters', { body })
        : requestData<NewsletterRecord>('PUT', toDraftPath(id), { body }),
    (draft) => draftKey(draft.id),
    DRAFTS_KEY,
  )

/** @param contact address of the contact for whom it is rendered; empty: the newest */
export const usePreview = ({ id, updated_at: version }: NewsletterRecord, contact: string) =>
  useRecord<NewsletterPreviewRecord>(['preview', id, version, contact], toDraftPath(id, '/preview'), {
    query: { contact_email: contact },
    retry: false,
  })

export const useSendTest = (id: string) =>
  useMutation({
    mutationFn: async (contact: string) => {
      const body = contact === '' ? {} : { contact_email: contact }
      return await requestData<SendResponse>('POST', toDraftPath(id, '/test-email'), { body })
    },
  })

export const useRecipientCount = (listId: string) =>
  useRecord<RecipientCountRecord>(['recipients', listId], toListPath(listId, '/recipients'), {
    staleTime: 0,
    retry: false,
  })

export interface StartedBroadcast {
  readonly operation_id: string
  readonly total_recipients: number
  readonly message: string
}

export const useSend = (id: string) =>
  useChange(
    (body: { readonly max_recipients: number; readonly send_at: string | null }) =>
      requestData<StartedBroadcast>('POST', toDraftPath(id, '/send'), { body }),
    ['broadcasts'],
    ['drafts'],
  )

/** Templates to choose from. */
export const useTemplates = () => useAll<TemplateRow>(['templates', 'choice'], '/v1/templates')

/** Domains that a sender may have. */
export const useSenderDomains = () =>
  useRecord<readonly DomainWire[]>(['domains', 'senders'], '/v1/domains', { query: { per_page: MAX_PAGE_SIZE } })
