/**
 * @module The in-memory order in which received messages are processed: round-robin by source network and destination
 * account, so that mail of one sender, or for one account, delays only itself. Large messages have their own queue.
 * `queue-entries.ts` reads the entries on disk.
 */

import type { Destination } from '#features/receiving/received/message.ts'
import { networksOf } from '#platform/net/network.ts'
import { FairQueue, type Owner } from '#platform/queue/fair-queue.ts'
import { KiB } from '#platform/units.ts'
import type { QueueEntrySummary } from './queue-entries.ts'

/** Messages above this size are large: small ones never wait for them. */
export const LARGE_MESSAGE_BYTES = 512 * KiB

export const isLarge = ({ sizeBytes }: { readonly sizeBytes: number }): boolean => sizeBytes > LARGE_MESSAGE_BYTES

/**
 * Estimated cost of a message before it is parsed, in milliseconds of a parse Worker; the actual time is charged
 * afterwards.
 */
const BYTES_PER_MS = 64 * KiB

export interface QueuedMessage {
  readonly id: number
  readonly sizeBytes: number
  /** As in the queue entry when it was read. */
  readonly attempts: number
  /** Owner in the round-robin: network and account. */
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

  /** @param mayBegin returns false for owners that cannot be served now */
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

/** The largest network that the customer with this address may have. */
export const sourceNetworkOf = (sourceIp: string): string => networksOf(sourceIp).at(-1) ?? sourceIp

/** The owner of a message: the largest network that its source may have, and its destination account. */
export const ownerOf = ({ sourceIp, destinations }: Pick<QueueEntrySummary, 'sourceIp' | 'destinations'>): string =>
  `${sourceNetworkOf(sourceIp)} ${accountOf(JSON.parse(destinations) as Destination[])}`

export const networkOfOwner = (owner: Owner): string => String(owner).split(' ')[0] ?? ''

/**
 * Mail for several accounts gets no account as owner: otherwise its sender would use up the turns of all these
 * accounts.
 */
function accountOf(destinations: readonly Destination[]): string {
  const accounts = new Set(destinations.map((to) => (to.kind === 'domain' ? to.accountId : to.kind)))
  const [account] = accounts
  return accounts.size === 1 ? `account:${account}` : 'several'
}
