/**
 * @module Rendered HTML for the frame of a browser, held in memory for some minutes. A frame cannot get the HTML from
 * the page around it: that would apply the policy of the page, which allows no styles of others.
 */

import { randomBytes } from '#platform/ids.ts'
import { Counts } from '#platform/queue/counts.ts'
import type { Clock } from '#platform/time/clock.ts'
import { MiB, type Millis, minutes } from '#platform/units.ts'

const TTL_MS = minutes(10)
/** Previews of an account; the oldest is dropped first. */
const MAX_PER_ACCOUNT = 20
/** Memory of all previews together; the oldest of the owner that takes most is dropped first. */
const MAX_TOTAL_BYTES = 16 * MiB
const ID_BYTES = 16
/** A character of a string takes up to two bytes. */
const BYTES_PER_CHARACTER = 2

interface Preview {
  readonly accountId: number
  readonly owner: number
  readonly html: string
  readonly expiresAt: Millis
}

export type PreviewStore = ReturnType<typeof createPreviewStore>

/** @param toOwner whom the memory of an account counts for; omitted: itself */
export function createPreviewStore(clock: Clock, toOwner = (accountId: number): number => accountId) {
  /** Oldest first. */
  const previews = new Map<string, Preview>()
  /** Of each owner. */
  const bytes = new Counts()
  const remove = (id: string): void => {
    const preview = previews.get(id)
    if (!preview) return
    bytes.add(preview.owner, -preview.html.length * BYTES_PER_CHARACTER)
    previews.delete(id)
  }
  const dropExpired = (): void => {
    for (const [id, { expiresAt }] of previews) {
      if (expiresAt > clock.now()) return
      remove(id)
    }
  }
  const dropLarge = (): void => {
    while (bytes.total > MAX_TOTAL_BYTES) {
      const [largest] = [...bytes].reduce((most, next) => (next[1] > most[1] ? next : most))
      for (const [id, { owner }] of previews) {
        if (owner !== largest) continue
        remove(id)
        break
      }
    }
  }
  return {
    /** @returns the id of the preview */
    add(accountId: number, html: string): string {
      const own = [...previews].filter(([, preview]) => preview.accountId === accountId)
      for (const [id] of own.slice(0, Math.max(own.length - MAX_PER_ACCOUNT + 1, 0))) remove(id)
      const id = Buffer.from(randomBytes(ID_BYTES)).toString('base64url')
      const owner = toOwner(accountId)
      previews.set(id, { accountId, owner, html, expiresAt: clock.now() + TTL_MS })
      bytes.add(owner, html.length * BYTES_PER_CHARACTER)
      dropExpired()
      dropLarge()
      return id
    },
    /** The HTML of a preview of this account; undefined: it has expired or was dropped. */
    find(accountId: number, id: string): string | undefined {
      dropExpired()
      const preview = previews.get(id)
      return preview?.accountId === accountId ? preview.html : undefined
    },
  }
}
