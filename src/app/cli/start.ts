/**
 * @module `tassis start`, used by `scripts/start`: runs the service with sample data. The first start creates an
 * account, a domain and a key, and sends an email over the API, as a client would. For trials, in delivery mode
 * `capture`.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { Command } from 'commander'
import { API, type Api } from '#client/api.ts'
import { createClient } from '#client/client.ts'
import { listAccounts } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { simulatorDomain } from '#features/sending/queue/lanes.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { createDomain, type Domain, findDomainByName, listDomains } from '#features/setup/domains/domains.ts'
import { attempt } from '#platform/attempt.ts'
import { AppError } from '#platform/errors.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import type { OpenedApp } from '../create.ts'
import type { Service } from '../service.ts'
import { loadConfig } from '../settings.ts'
import { VERSION } from '../version.ts'
import { CommandError } from './errors.ts'
import { print, quoteShellWord } from './output.ts'
import { findSetupLink, formatHostPort, runService } from './serve.ts'

/** A reserved name (RFC 6761 §6.2), so that mail of a trial never appears to come from a real domain. */
const FIRST_DOMAIN = 'example.test'

export function addStartCommand(program: Command): void {
  program
    .command('start', { hidden: true })
    .description('run the service with a first account, domain, key and email; used by scripts/start')
    .action(async () => {
      await runService(loadConfig(), 'scripts/start', async (service) => print(await prepareFirstStart(service)))
      print('Stopped.')
    })
}

/** Creates what is missing and returns a summary of less than 20 lines. */
async function prepareFirstStart(service: Service): Promise<string> {
  const { app } = service.opened
  const { config } = app
  const [existing] = listAccounts(config, app.db)
  const account =
    existing ?? (await createAccount(app, { name: 'First account', email: `you@${FIRST_DOMAIN}`, plan: 'unlimited' }))
  const actor = toOperatorActor(account)
  const setupLink = await findSetupLink(service)
  const { domain } = findFirstDomain(app, actor) ?? (await createDomain(app, actor, FIRST_DOMAIN)).domain
  const keyFile = join(config.dataDir, 'first-key')
  const key = await ensureKey(service, actor, keyFile)
  const summary = existing
    ? `Existing data: account "${existing.name}", domain ${domain}; the API key is in ${keyFile}.`
    : `Created account "${account.name}", domain ${domain} and an API key (stored in ${keyFile}).\n${await sendFirstEmail(service.url, key, domain)}`
  return `Tassis ${VERSION} runs on ${service.url}, data in ${config.dataDir}, delivery mode ${config.delivery}.
${summary}

  Dashboard       ${setupLink ? `${setupLink}\n                  (creates the first user, within one hour)` : `${service.url}/app`}
  Captured mail   ${service.url}/dev/captured
  Simulator       bounce@${simulatorDomain(config)} and others, which docs/simulator.md lists
  Submission      ${formatSubmission(service)}
  Inbound mail    ${formatInbound(service)}
  The API         ${service.url}/docs
  Commands        ${formatCommandLine(config.dataDir)} --help

The next email:

curl ${service.url}/v1/emails -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' \\
  -d '{"from": "Ada <ada@${domain}>", "to": "bob@${FIRST_DOMAIN}", "subject": "Hello", "text_body": "It works."}'

Ctrl-C stops the service.`
}

/** Describes where the service takes mail by SMTP from programs, or how to enable it. */
function formatSubmission({ submission: { endpoints } }: Service): string {
  if (endpoints.length === 0) return 'off; to enable it, start with TASSIS_SUBMISSION_TLS_ADDR=127.0.0.1:1465'
  return `at ${endpoints.map(formatHostPort).join(' and ')}; the password is the key`
}

/** Describes where the service receives mail, or how to enable it. */
function formatInbound({ inbound: { listener } }: Service): string {
  if (!listener) return 'off; to enable it, start with TASSIS_INBOUND_ADDR=127.0.0.1:2525'
  return `at ${formatHostPort(listener)} for verified domains; \`domains verify --without-dns\` verifies one`
}

/**
 * Formats the command line for a second shell on the same data. A program that runs from its sources has no `tassis` in
 * the path, so the line names Bun and the source file.
 */
function formatCommandLine(dataDir: string): string {
  const program = Bun.isStandaloneExecutable
    ? [process.execPath]
    : [Bun.which('bun') ?? process.execPath, relative('.', Bun.main)]
  return [`TASSIS_DATA_DIR=${quoteShellWord(dataDir)}`, ...program.map(quoteShellWord)].join(' ')
}

/** Finds the domain that the first start created, else the oldest. */
function findFirstDomain({ db }: App, { accountId }: Actor): Domain | undefined {
  const first = findDomainByName(db, accountId, FIRST_DOMAIN)
  if (first) return first
  // The list is newest first.
  const { total } = listDomains(db, accountId, { limit: 1, offset: 0 })
  return listDomains(db, accountId, { limit: 1, offset: Math.max(0, total - 1) }).domains[0]
}

/** The account of a key that can be used on this machine. */
function findKeyAccount({ authenticator }: OpenedApp, key: string): number | undefined {
  try {
    return authenticator.authenticate(key, () => '127.0.0.1')?.accountId
  } catch (error) {
    // It has expired, or may not be used from here.
    if (error instanceof AppError) return undefined
    throw error
  }
}

/** Returns the key that an earlier start stored if it is still valid, else a new one. */
async function ensureKey({ opened }: Service, actor: Actor, path: string): Promise<string> {
  const stored = attempt(() => readFileSync(path, 'utf8').trim())
  if (stored !== undefined && findKeyAccount(opened, stored) === actor.accountId) return stored
  const { key } = await createApiKey(opened.app, actor, { name: 'scripts/start' })
  writeFileSync(path, `${key}\n`, { mode: 0o600 })
  return key
}

const TIMEOUT_MS = seconds(20)
const POLL_INTERVAL_MS = 25

/** Sends an email over the API, waits until it is final and returns a sentence about it. */
async function sendFirstEmail(url: string, key: string, domain: string): Promise<string> {
  const begunMs = systemClock.monotonicMs()
  const { emails } = createClient<Api>(API, { url, key })
  const to = `you@${FIRST_DOMAIN}`
  const { data: accepted } = await emails
    .send({
      from: `Tassis <hello@${domain}>`,
      to,
      subject: 'The first email',
      text_body: 'It was accepted over HTTP, stored, composed, signed with DKIM and handed over by SMTP.\n',
    })
    .catch((error: Error) => {
      throw new CommandError(`The first email was refused: ${error.message}`)
    })
  for (;;) {
    const { status, events } = (await emails.get(accepted.id)).data
    const tookMs = Math.round(systemClock.monotonicMs() - begunMs)
    if (['queued', 'processing'].includes(status) && tookMs < TIMEOUT_MS) {
      await systemClock.sleep(POLL_INTERVAL_MS)
      continue
    }
    const steps = (events ?? []).map(({ type }) => type).join(', ')
    return `Sent a first email to ${to} over the API: ${steps}; ${status} after ${tookMs} ms.`
  }
}
