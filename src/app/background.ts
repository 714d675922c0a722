/**
 * @module Lists every background loop outside the mail queue. A loop is woken by a signal of `App`, and also runs once
 * a minute. After a restart, each loop continues where it stopped.
 */

import { startImporter } from '#features/audience/contact-lists/importer.ts'
import { createSubscriptionKinds } from '#features/audience/contact-lists/subscription-notices.ts'
import type { App } from '#features/core/app/app.ts'
import { startSweeper } from '#features/core/content-gc/sweep.ts'
import { startNotices } from '#features/core/notices/loop.ts'
import { startAccountRemoval } from '#features/lifecycle/privacy/delete-account.ts'
import { startErasureLoop } from '#features/lifecycle/privacy/erase.ts'
import { createOwnerKind } from '#features/people/owner-notices/owner-notices.ts'
import { ContentWatch } from '#features/reporting/abuse/content-watch.ts'
import { PAUSE_NOTICE } from '#features/reporting/abuse/pause.ts'
import { startAbuseWatch } from '#features/reporting/abuse/watch.ts'
import { BroadcastEnqueuer } from '#features/sending/broadcasts/enqueue.ts'
import { startDeadlineLoop } from '#features/sending/delivery/attempt/claim.ts'
import { startHeldMailReleaser } from '#features/sending/delivery/verdict/held-mail.ts'
import { followBroadcast } from '#features/sending/newsletters/states.ts'
import { startEmailIndexing } from '#features/sending/queue/search.ts'
import { LOSS_NOTICE, ROTATION_NOTICE } from '#features/setup/domains/notices.ts'
import { DEACTIVATION_NOTICE } from '#features/webhooks/webhooks/deliver/deactivation-notice.ts'
import type { DueLoop } from '#platform/queue/due-loop.ts'

const OWNER_NOTICES = [PAUSE_NOTICE, DEACTIVATION_NOTICE, LOSS_NOTICE, ROTATION_NOTICE]

const LOOPS: readonly ((app: App) => DueLoop)[] = [
  (app) =>
    startNotices(app, [
      ...createSubscriptionKinds(app),
      ...OWNER_NOTICES.map((notice) => createOwnerKind(app, notice)),
    ]),
  startImporter,
  startSweeper,
  startAccountRemoval,
  startErasureLoop,
  startHeldMailReleaser,
  startDeadlineLoop,
  startAbuseWatch,
  (app) => new ContentWatch(app),
  startEmailIndexing,
]

/**
 * Starts all loops. `stop` prevents new work and waits for running work.
 * @param broadcastAhead emails of a broadcast in the mail queue, for tests
 */
export function startBackground(app: App, broadcastAhead?: number): { stop(): Promise<void> } {
  const loops = [...LOOPS.map((start) => start(app)), new BroadcastEnqueuer(app, followBroadcast, broadcastAhead)]
  return {
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}
