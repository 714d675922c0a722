/**
 * @module Keeps the dialogues of the last accepted messages of each site in memory, to compare them with those of
 * failed attempts, which are stored. Bounded in messages, sites, bytes and age; lost at a restart.
 */
import type { Clock, Millis } from '#platform/time/clock.ts'
import { hours, MiB } from '#platform/units.ts'

const MAX_PER_SITE = 20
const MAX_SITES = 1000
const MAX_BYTES = 8 * MiB
/** Bounds how long an erased address may stay in memory. */
const MAX_AGE_MS = hours(1)

interface RecentDialogue {
  readonly dialogue: string
  readonly at: Millis
}

export class RecentDialogues {
  readonly #clock: Clock
  /** Recipients by site, both oldest first. */
  readonly #sites = new Map<string, number[]>()
  readonly #dialogues = new Map<number, RecentDialogue>()
  #bytes = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(site: string, recipientId: number, dialogue: string): void {
    const recipients = this.#sites.get(site) ?? []
    this.#sites.delete(site)
    this.#sites.set(site, recipients)
    recipients.push(recipientId)
    this.#delete(recipientId)
    this.#dialogues.set(recipientId, { dialogue, at: this.#clock.now() })
    this.#bytes += dialogue.length
    while (recipients.length > MAX_PER_SITE) this.#delete(recipients.shift())
    for (const [name, ids] of this.#sites) {
      if (this.#sites.size <= MAX_SITES && this.#bytes <= MAX_BYTES) break
      for (const id of ids) this.#delete(id)
      this.#sites.delete(name)
    }
  }

  find(recipientId: number): string | undefined {
    const found = this.#dialogues.get(recipientId)
    return found && this.#clock.now() - found.at <= MAX_AGE_MS ? found.dialogue : undefined
  }

  #delete(recipientId: number | undefined): void {
    const found = recipientId === undefined ? undefined : this.#dialogues.get(recipientId)
    if (!found || recipientId === undefined) return
    this.#bytes -= found.dialogue.length
    this.#dialogues.delete(recipientId)
  }
}
