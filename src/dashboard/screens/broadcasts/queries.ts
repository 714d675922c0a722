/** @module Drafts of broadcasts, as several screens read and change them. */
import type { BroadcastSummary } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'

export const POLL_MS = 2000
/** Results of one that has ended change only by what readers do. */
export const SLOW_POLL_MS = 30_000

const OPEN_STATES: readonly string[] = ['waiting', 'sending', 'paused', 'cancelling', 'failing']
export const isMoving = ({ state }: BroadcastSummary): boolean => OPEN_STATES.includes(state)

export const useDrafts = (pageSize: number) => usePage(read.newsletters.list({ status: 'draft', per_page: pageSize }))
