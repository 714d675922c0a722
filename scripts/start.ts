/**
 * @module What `scripts/start` runs: the service with sample data. The first start creates an account, a domain and a
 * key, and sends an email over the API, as a client would. For trials, in delivery mode `capture`.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { Command } from '#app/cli/command.ts'
import { print } from '#app/cli/output.ts'
import { runCommandLine } from '#app/cli/program.ts'
import { findSetupLink, formatHostPort, runService } from '#app/cli/serve.ts'
import type { Service } from '#app/service.ts'
import { loadConfig } from '#app/settings.ts'
import { VERSION } from '#app/version.ts'
import { API, type Api } from '#client/api.ts'
import { createClient } from '#client/client.ts'
import { type Account, listAccounts } from '#features/core/accounts/accounts.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { simulatorDomain } from '#features/sending/queue/lanes.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { attempt } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { quoteShellWord } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'

/** A reserved name (RFC 6761 §6.2), so that mail of a trial never appears to come from a real domain. */
const FIRST_DOMAIN = 'example.test'

const addStartCommand = (program: Command) =>
  program.command('start', { hidden: true }).action(async () => {
    await runService(loadConfig(), async (service) => print(await prepareFirstStart(service)))
    print('Stopped.')
  })

/** Creates what is missing and returns a summary of less than 20 lines. */
async function prepareFirstStart(service: Service): Promise<string> {
  const { app } = service.opened
  const { config } = app
  const { listener } = service.inbound
  const [existing] = listAccounts(config, app.db)
  const account =
    existing ?? (await createAccount(app, { name: 'First account', email: `you@${FIRST_DOMAIN}`, plan: 'unlimited' }))
  const setupLink = await findSetupLink(service)
  const keyFile = join(config.dataDir, 'first-key')
  const key = await ensureKey(service, account, keyFile)
  const api = createClient<Api>(API, { url: service.url, key })
  const { data: domains } = await api.domains.list({ per_page: 100 })
  const first = domains.find(({ domain }) => domain === FIRST_DOMAIN) ?? domains.at(-1)
  const { domain } = first ?? (await api.domains.create({ domain: FIRST_DOMAIN })).data
  const summary = existing
    ? `Existing data: account "${existing.name}", domain ${domain}; the API key is in ${keyFile}.`
    : `Created account "${account.name}", domain ${domain} and an API key (stored in ${keyFile}).\n${await sendFirstEmail(api, domain)}`
  return `Tassis ${VERSION} runs on ${service.url}, data in ${config.dataDir}, delivery mode ${config.delivery}.
${summary}

  Dashboard       ${setupLink ? `${setupLink}\n                  (creates the first user, within one hour)` : `${service.url}/app`}
  Captured mail   ${service.url}/dev/captured
  Simulator       bounce@${simulatorDomain(config)} and others, which docs/simulator.md lists
  Submission      ${formatListeners(service.submission.endpoints, '; the password is the key', 'TASSIS_SUBMISSION_TLS_ADDR=127.0.0.1:1465')}
  Inbound mail    ${formatListeners(listener ? [listener] : [], ' for verified domains; `domains verify --without-dns` verifies one', 'TASSIS_INBOUND_ADDR=127.0.0.1:2525')}
  The API         ${service.url}/docs
  Commands        ${formatCommandLine(config.dataDir)} --help

The next email:

curl ${service.url}/v1/emails -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' \\
  -d '{"from": "Ada <ada@${domain}>", "to": "bob@${FIRST_DOMAIN}", "subject": "Hello", "text_body": "It works."}'

Ctrl-C stops the service.`
}

/** Where the service listens, and how; else the setting that enables it. */
const formatListeners = (
  endpoints: readonly Parameters<typeof formatHostPort>[0][],
  note: string,
  setting: string,
): string =>
  endpoints.length === 0
    ? `off; to enable it, start with ${setting}`
    : `at ${endpoints.map(formatHostPort).join(' and ')}${note}`

/** The command line for a second shell on the same data; there is no `tassis` in the path. */
function formatCommandLine(dataDir: string): string {
  const program = [Bun.which('bun') ?? process.execPath, relative('.', join(import.meta.dir, '../src/main.ts'))]
  return [`TASSIS_DATA_DIR=${quoteShellWord(dataDir)}`, ...program.map(quoteShellWord)].join(' ')
}

/** Returns the key that an earlier start stored if it is still valid for the account, else a new one. */
async function ensureKey({ opened: { app }, url }: Service, account: Account, path: string): Promise<string> {
  const stored = attempt(() => readFileSync(path, 'utf8').trim())
  if (stored) {
    const { account: own } = createClient<Api>(API, { url, key: stored })
    const owner = await own.get().catch(() => undefined)
    if (owner?.data.id === formatUuid(account.uuid)) return stored
  }
  const { key } = await createApiKey(app, toOperatorActor(account), { name: 'scripts/start' })
  writeFileSync(path, `${key}\n`, { mode: 0o600 })
  return key
}

const MAX_READS = 800
const POLL_INTERVAL_MS = 25

/** Sends an email over the API, waits until it is final and returns a sentence about it. */
async function sendFirstEmail({ emails }: Api, domain: string): Promise<string> {
  const begunMs = systemClock.monotonicMs()
  const to = `you@${FIRST_DOMAIN}`
  const { data: accepted } = await emails.send({
    from: `Tassis <hello@${domain}>`,
    to,
    subject: 'The first email',
    text_body: 'It was accepted over HTTP, stored, composed, signed with DKIM and handed over by SMTP.\n',
  })
  let email = (await emails.get(accepted.id)).data
  for (let reads = 1; ['queued', 'processing'].includes(email.status) && reads < MAX_READS; reads++) {
    await systemClock.sleep(POLL_INTERVAL_MS)
    email = (await emails.get(accepted.id)).data
  }
  const tookMs = Math.round(systemClock.monotonicMs() - begunMs)
  const steps = email.events.map(({ type }) => type).join(', ')
  return `Sent a first email to ${to} over the API: ${steps}; ${email.status} after ${tookMs} ms.`
}

if (import.meta.main) {
  // Files hold mail and keys, so only this user may read them.
  process.umask(0o077)
  process.exit(await runCommandLine(['start'], addStartCommand))
}
