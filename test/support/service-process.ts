/**
 * @module A service in a separate process, for tests that measure its memory: prints one line of JSON ({url, key}),
 * then serves until its input ends. The TASSIS_* variables are its settings. Started by `startServiceProcess`.
 */
import { createEmailApi } from './email-api.ts'

const settings = Object.fromEntries(
  Object.entries(process.env).flatMap(([name, value]) => (name.startsWith('TASSIS_') && value ? [[name, value]] : [])),
)
const emails = await createEmailApi({ settings })
process.stdout.write(`${JSON.stringify({ url: emails.url, key: emails.key })}\n`)
for await (const _ of Bun.stdin.stream());
await emails[Symbol.asyncDispose]()
