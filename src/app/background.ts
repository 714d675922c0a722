/**
 * @module Lists every background loop outside the mail queue. A loop is woken by a signal of `App`, and also runs once
 * a minute. After a restart, each loop continues where it stopped.
 */

import { startImporter } from '#features/audience/contact-lists/importer.ts'
import { SubscriptionMailLoop } from '#features/audience/contact-lists/subscription-mail-loop.ts'
import type { App } from '#features/core/app/app.ts'
import { startSweeper } from '#features/core/content-gc/sweep.ts'
import { startAccountRemoval } from '#features/lifecycle/privacy/delete-account.ts'
import { startErasureLoop } from '#features/lifecycle/privacy/erase.ts'
import { startLossNotices } from '#features/people/domain-notices/losses.ts'
import { startRotationNotices } from '#features/people/domain-notices/rotations.ts'
import { ContentWatch } from '#features/reporting/abuse/content-watch.ts'
import { startPauseNotices } from '#features/reporting/abuse/notices.ts'
import { startAbuseWatch } from '#features/reporting/abuse/watch.ts'
import { BroadcastEnqueuer } from '#features/sending/broadcasts/enqueue.ts'
import { startDeadlineLoop } from '#features/sending/delivery/deadlines.ts'
import { startHeldMailReleaser } from '#features/sending/delivery/held-mail.ts'
import { followBroadcast } from '#features/sending/newsletters/states.ts'
import { startEmailIndexing } from '#features/sending/queue/search.ts'
import { startDeactivationNotices } from '#features/webhooks/webhooks/deactivation-notices.ts'
import type { DueLoop } from '#platform/queue/due-loop.ts'

const LOOPS: readonly ((app: App) => DueLoop)[] = [
  (app) => new SubscriptionMailLoop(app),
  startImporter,
  startSweeper,
  startAccountRemoval,
  startErasureLoop,
  startHeldMailReleaser,
  startDeadlineLoop,
  startAbuseWatch,
  (app) => new ContentWatch(app),
  startPauseNotices,
  startDeactivationNotices,
  startLossNotices,
  startRotationNotices,
  startEmailIndexing,
  (app) => new BroadcastEnqueuer(app, followBroadcast),
]

/** Starts all loops. `stop` prevents new work and waits for running work. */
export function startBackground(app: App): { stop(): Promise<void> } {
  const loops = LOOPS.map((start) => start(app))
  return {
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}
