/**
 * @module The loops that work off what waits outside the mail queue, on one page: each is woken by a signal of `App`, looks by itself once a minute
 * and after a start goes on where the process ended.
 */
import { startContentWatch } from '#features/abuse/content-watch.ts'
import { startPauseNotices } from '#features/abuse/notices.ts'
import { startAbuseWatch } from '#features/abuse/watch.ts'
import type { App } from '#features/app.ts'
import { startFeeder } from '#features/broadcasts/feed.ts'
import { startContactMails } from '#features/contact-lists/contact-mail-loop.ts'
import { startImporter } from '#features/contact-lists/importer.ts'
import { startSweeper } from '#features/content/sweep.ts'
import { startReleaser } from '#features/delivery/held.ts'
import { startLossNotices } from '#features/domain-notices/notices.ts'
import { noteBroadcast } from '#features/newsletters/states.ts'
import { startAccountRemoval } from '#features/privacy/delete-account.ts'
import { startErasures } from '#features/privacy/erase.ts'
import { startOffNotices } from '#features/webhooks/off-notices.ts'
import type { DueLoop } from '#platform/queue/due-loop.ts'

const LOOPS: readonly ((app: App) => DueLoop)[] = [
  startContactMails,
  startImporter,
  startSweeper,
  startAccountRemoval,
  startErasures,
  startReleaser,
  startAbuseWatch,
  startContentWatch,
  startPauseNotices,
  startOffNotices,
  startLossNotices,
  (app) => startFeeder(app, noteBroadcast),
]

/** Starts all of them. `stop` begins nothing any more and waits for what runs. */
export function startBackground(app: App): { stop(): Promise<void> } {
  const loops = LOOPS.map((start) => start(app))
  return {
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}
