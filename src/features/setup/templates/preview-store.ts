/**
 * @module Rendered HTML for the frame of a browser, held in memory for some minutes. A frame cannot get the HTML from
 * the page around it: that would apply the policy of the page, which allows no styles of others.
 */

import { randomBytes } from '#platform/ids.ts'
import type { Clock, Millis } from '#platform/time/clock.ts'
import { MiB, minutes } from '#platform/units.ts'

const TTL_MS = minutes(10)
/** Previews of an account; the oldest is dropped first. */
const MAX_PER_ACCOUNT = 20
/** Memory of all previews together; the oldest is dropped first, and its frame is rendered again. */
const MAX_TOTAL_BYTES = 16 * MiB
const ID_BYTES = 16
/** A character of a string takes up to two bytes. */
const BYTES_PER_CHARACTER = 2

interface Preview {
  readonly accountId: number
  readonly html: string
  readonly expiresAt: Millis
}

export type PreviewStore = ReturnType<typeof createPreviewStore>

export function createPreviewStore(clock: Clock) {
  /** Oldest first. */
  const previews = new Map<string, Preview>()
  let totalBytes = 0
  const remove = (id: string, { html }: Preview): void => {
    totalBytes -= html.length * BYTES_PER_CHARACTER
    previews.delete(id)
  }
  const dropOldest = (): void => {
    for (const [id, preview] of previews) {
      if (preview.expiresAt > clock.now() && totalBytes <= MAX_TOTAL_BYTES) return
      remove(id, preview)
    }
  }
  return {
    /** @returns the id of the preview */
    add(accountId: number, html: string): string {
      const own = [...previews].filter(([, preview]) => preview.accountId === accountId)
      for (const [id, preview] of own.slice(0, Math.max(own.length - MAX_PER_ACCOUNT + 1, 0))) remove(id, preview)
      const id = Buffer.from(randomBytes(ID_BYTES)).toString('base64url')
      previews.set(id, { accountId, html, expiresAt: clock.now() + TTL_MS })
      totalBytes += html.length * BYTES_PER_CHARACTER
      dropOldest()
      return id
    },
    /** The HTML of a preview of this account; undefined: it has expired or was dropped. */
    find(accountId: number, id: string): string | undefined {
      dropOldest()
      const preview = previews.get(id)
      return preview?.accountId === accountId ? preview.html : undefined
    },
  }
}
