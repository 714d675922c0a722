/** @module A process that only sends subscription mail, to be killed: its data directory comes from the environment. */
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import { SubscriptionMailLoop } from '#features/audience/contact-lists/subscription-mail-loop.ts'

const { app } = openApp(loadConfig(process.env).config)
new SubscriptionMailLoop(app)
await new Promise(() => undefined)
