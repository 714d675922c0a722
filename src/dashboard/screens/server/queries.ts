/** @module Reads of the operator's screens, repeated while they are visible, and the changes of the queue. */
import { TassisError } from '#client/client.ts'
import type {
  OperatorQueueSelection,
  ReleaseOperatorQueueRequest,
  RetryOperatorQueueResult,
} from '#client/operator-api.ts'
import { api, type Read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'

const REFRESH_MS = 15_000

/** A refusal stays until something is done about it. */
export const refetchInterval = ({ state }: { readonly state: { readonly error: Error | null } }): number | false =>
  state.error instanceof TassisError && state.error.status === 403 ? false : REFRESH_MS

/** Options of a list that is read again while it is visible. */
export const REFRESHED = { isSteady: true, refetchInterval } as const

/** One thing, of which nothing of another is shown while it is loaded. */
export const useOne = <T>(one: Read<PromiseLike<{ readonly data: T }>>) => useData(one, { refetchInterval })

/** What an operator names in the queue: mail that matches every field. */
export type QueueSelector = Omit<ReleaseOperatorQueueRequest, 'kind'>

export type QueueAction = 'hold' | 'release' | 'retry' | 'bounce' | 'drop'

export type QueueResult = Omit<RetryOperatorQueueResult, 'next_cursor'>

/** Changes all that matches: each request changes a limited number. */
async function changeAll(
  change: (cursor: string | undefined) => Promise<{ readonly data: RetryOperatorQueueResult }>,
): Promise<QueueResult> {
  const sum = { changed: 0, in_delivery: 0, held: 0 }
  const suspended = new Set<string>()
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const { data } = await change(cursor)
    sum.changed += data.changed
    sum.in_delivery += data.in_delivery
    sum.held += data.held
    for (const name of data.suspended) suspended.add(name)
    cursor = data.next_cursor
  }
  return { ...sum, suspended: [...suspended] }
}

const NONE: QueueResult = { changed: 0, in_delivery: 0, held: 0, suspended: [] }
const toHeld = ({ waiting, in_delivery }: OperatorQueueSelection) => ({ ...NONE, changed: waiting, in_delivery })

const RUN: Readonly<Record<QueueAction, (selector: QueueSelector, reason: string) => Promise<QueueResult>>> = {
  hold: async (selector, reason) => toHeld((await api.operator.holdQueue({ ...selector, reason })).data),
  release: async (selector) => ({ ...NONE, changed: (await api.operator.releaseQueue(selector)).data.length }),
  retry: (selector) => changeAll((cursor) => api.operator.retryQueue({ ...selector, cursor })),
  bounce: (selector, reason) => changeAll((cursor) => api.operator.bounceQueue({ ...selector, reason, cursor })),
  drop: (selector) => changeAll((cursor) => api.operator.dropQueue({ ...selector, cursor })),
}

/** Resolves with how much mail was changed, or is held; for a release, with how many rules ended. */
export const runQueueAction = (action: QueueAction, selector: QueueSelector, reason: string) =>
  RUN[action](selector, reason)
