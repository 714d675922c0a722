/**
 * @module A service of its own process, for tests that look at its memory: prints one line of JSON ({url, key}), then answers until its input ends.
 * Its settings are the TASSIS_* variables of its environment. Started by `startServiceProcess`.
 */
import { createEmailApi } from './email-api.ts'

const settings = Object.fromEntries(
  Object.entries(process.env).flatMap(([name, value]) => (name.startsWith('TASSIS_') && value ? [[name, value]] : [])),
)
const emails = await createEmailApi({ settings })
process.stdout.write(`${JSON.stringify({ url: emails.url, key: emails.key })}\n`)
for await (const _ of Bun.stdin.stream());
await emails[Symbol.asyncDispose]()
