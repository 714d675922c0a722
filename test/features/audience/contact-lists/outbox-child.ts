/**
 * @module A process that only sends subscription mail, to be killed: its data directory comes from the environment. With
 * MAX_WRITES in the environment, it waits for its end after so many writes.
 */
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import { createSubscriptionKinds } from '#features/audience/contact-lists/subscription-notices.ts'
import { startNotices } from '#features/core/notices/notices.ts'

const { MAX_WRITES, ...settings } = process.env
const { app } = openApp(loadConfig(settings).config)
const { write } = app.commit
let writes = 0
app.commit.write = async (run, options) => {
  if (++writes > Number(MAX_WRITES ?? Number.POSITIVE_INFINITY)) await new Promise(() => undefined)
  return write.call(app.commit, run, options) as never
}
startNotices(app, createSubscriptionKinds(app))
await new Promise(() => undefined)
