/** @module Drafts of broadcasts, as several screens read and change them. */
import type { BroadcastSummary, CreateNewsletterRequest, UpdateNewsletterRequest } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { usePage, useStore } from '../../api/data.ts'

export const POLL_MS = 2000
/** Results of one that has ended change only by what readers do. */
export const SLOW_POLL_MS = 30_000

const OPEN_STATES: readonly string[] = ['waiting', 'sending', 'paused', 'cancelling', 'failing']
export const isMoving = ({ state }: BroadcastSummary): boolean => OPEN_STATES.includes(state)

export const useDrafts = (pageSize: number) => usePage(read.newsletters.list({ status: 'draft', per_page: pageSize }))

/** @param id the draft to change; undefined creates one, which has all fields that it needs */
export const useSaveDraft = (id: string | undefined) =>
  useStore(
    (body: UpdateNewsletterRequest) =>
      id === undefined ? api.newsletters.create(body as CreateNewsletterRequest) : api.newsletters.update(id, body),
    ({ data }) => read.newsletters.get(data.id),
    ['newsletters', 'list'],
    ['newsletters', 'preview'],
  )
