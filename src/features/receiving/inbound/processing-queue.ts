/**
 * @module The order in which received messages are processed: round-robin by source network and destination account, so
 * that mail of one sender, or for one account, holds up only itself. Large messages have a queue of their own. In
 * memory; `receipts.ts` is what is on disk.
 */

import type { Destination } from '#features/receiving/received/message.ts'
import { networksOf } from '#platform/network.ts'
import { FairQueue, type Owner } from '#platform/queue/fair-queue.ts'
import { KiB } from '#platform/units.ts'
import type { QueueEntrySummary } from './queue-entries.ts'

/** A message above this is large: the small ones never wait for it. */
export const LARGE_MESSAGE_BYTES = 512 * KiB

export const isLarge = ({ sizeBytes }: { readonly sizeBytes: number }): boolean => sizeBytes > LARGE_MESSAGE_BYTES

/**
 * What is known before a message is parsed, in milliseconds of a parse Worker; how long it really took is charged
 * afterwards.
 */
const BYTES_PER_MS = 64 * KiB

export interface QueuedMessage {
  readonly id: number
  readonly sizeBytes: number
  /** As in the receipt when it was read. */
  readonly attempts: number
  /** Who takes turns: network and account. */
  readonly owner: string
}

export class ProcessingQueue {
  readonly #small = createQueue()
  readonly #large = createQueue()

  get size(): number {
    return this.#small.size + this.#large.size
  }

  push(message: QueuedMessage): void {
    this.#select(message).push(message.owner, message, 1 + message.sizeBytes / BYTES_PER_MS)
  }

  /** @param mayBegin leaves out owners who cannot be served now */
  shiftSmall(mayBegin: (owner: Owner) => boolean): QueuedMessage | undefined {
    return this.#small.shift(mayBegin)?.item
  }

  shiftLarge(mayBegin: (owner: Owner) => boolean): QueuedMessage | undefined {
    return this.#large.shift(mayBegin)?.item
  }

  charge(message: QueuedMessage, parseMs: number): void {
    this.#select(message).charge(message.owner, parseMs)
  }

  #select(message: QueuedMessage): FairQueue<QueuedMessage> {
    return isLarge(message) ? this.#large : this.#small
  }
}

const createQueue = (): FairQueue<QueuedMessage> => new FairQueue({ sharesOf: (owner) => String(owner).split(' ') })

/** The largest network that the customer may have whose address it is. */
export const sourceNetworkOf = (sourceIp: string): string => networksOf(sourceIp).at(-1) ?? sourceIp

/**
 * Whose turn a message takes: that of the largest network that its source may have, and that of the account that it is
 * for.
 */
export const ownerOf = ({ sourceIp, destinations }: Pick<QueueEntrySummary, 'sourceIp' | 'destinations'>): string =>
  `${sourceNetworkOf(sourceIp)} ${accountOf(JSON.parse(destinations) as Destination[])}`

export const networkOfOwner = (owner: Owner): string => String(owner).split(' ')[0] ?? ''

/** Mail for several accounts is none of theirs: whoever sends it would use up the turns of all. */
function accountOf(destinations: readonly Destination[]): string {
  const accounts = new Set(destinations.map((to) => (to.kind === 'domain' ? to.accountId : to.kind)))
  const [account] = accounts
  return accounts.size === 1 ? `account:${account}` : 'several'
}
