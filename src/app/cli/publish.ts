/** @module `tassis domains publish`: publishes the records of a domain at its DNS provider, and waits until DNS has them. */
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import type { CreateDomainPublishRequest as Request, CreateDomainPublishResult as Result } from '#client/api.ts'
import { SENDING_RECORDS } from '#features/setup/domains/verification-state.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { type CommandApi, findOne } from './api.ts'
import type { Command, Context } from './command.ts'
import { collectOption, confirmAction, readInput, UsageError } from './options.ts'
import * as output from './output.ts'

interface Options {
  readonly provider?: string
  readonly field?: readonly string[]
  readonly dryRun?: boolean
  readonly yes?: boolean
  readonly keep: boolean
}

const WAIT_MS = seconds(60)
const REPEAT_MS = seconds(3)

export const addPublishCommand = (command: Command): Command =>
  command
    .option('--provider <name>', 'DNS provider; default: the kept one, or that of the name servers')
    .option('--field <name=value>', 'a credential, may be repeated; name=@FILE reads a file, @- input', collectOption)
    .option('--dry-run', 'only print the plan')
    .option('--yes', 'do not ask')
    .option('--no-keep', 'do not keep the credentials for later changes of this domain')
    .run(async ({ api: all, options }: Context<Options>, name: string) => {
      const { api, id, label } = await findOne(all, 'domain', name, options)
      const request = { ...(await readCredentials(api, id, options)), keep: options.keep }
      const plan = await api.domains.publish(id, { ...request, dry_run: true })
      const count = plan.data.records.filter(({ state }) => state === 'planned').length
      if (options.dryRun) return output.printResult(options, plan, ({ data }) => formatRecords(data))
      if (!options.json) output.print(output.toPrintableLines(formatRecords(plan.data)))
      if (count > 0)
        confirmAction(
          options,
          `${count} records of ${label} would be written to the zone ${plan.data.zone}`,
          'publish them',
        )
      const print = options.json ? () => {} : output.print
      const { missing, ...done } = await publishUntilSeen(api, id, request, print)
      if (missing.length > 0) process.exitCode = 1
      output.printResult(options, done, ({ data }) =>
        output.joinParagraphs(
          data.records.flatMap(({ key, error }) => (error === null ? [] : `${key}: ${error}`)).join('\n'),
          data.summary,
          missing.length > 0 && `${label} cannot send yet: ${missing.join(', ')} not found in DNS.`,
        ),
      )
    })

/** Repeats, since each request checks at the name servers of the zone, and publishes what is not there. */
async function publishUntilSeen(api: CommandApi, id: string, request: Request, print: (line: string) => void) {
  const untilMs = systemClock.monotonicMs() + WAIT_MS
  const seen = new Set<string>()
  const { data: first } = await api.domains.publish(id, request)
  const hopeless = first.records.flatMap(({ key, action, error }) => (action === 'conflict' || error ? key : []))
  for (let { summary } = first; ; { summary } = (await api.domains.publish(id, request)).data) {
    const { data: domain } = await api.domains.get(id)
    for (const [key, { verified, host }] of Object.entries(domain.dns_records)) {
      if (!verified || seen.has(key)) continue
      seen.add(key)
      print(`ok  ${key.padEnd(18)} ${host}`)
    }
    const missing = SENDING_RECORDS.filter((key) => !seen.has(key))
    const isDone = missing.every((key) => hopeless.includes(key)) || systemClock.monotonicMs() > untilMs
    if (isDone) return { data: { ...first, summary }, missing }
    await systemClock.sleep(REPEAT_MS)
  }
}

/** Nothing when those that are kept are used. */
async function readCredentials(
  api: CommandApi,
  id: string,
  { provider: wanted, field = [] }: Options,
): Promise<Request> {
  const { data: state } = await api.domains.getPublish(id)
  const kept = state.provider
  if (field.length === 0 && kept !== null && (wanted ?? kept) === kept) return {}
  const name = wanted ?? kept ?? state.suggested_provider
  const provider = state.providers.find((known) => known.name === name)
  // `rfc2136 (BIND, Knot, PowerDNS)`
  const names = state.providers.map((known) => `${known.name}${/ \(.*/.exec(known.title)?.[0] ?? ''}`).join(', ')
  if (!provider) throw new UsageError(`Name the DNS provider with --provider: ${names}.`, 'no_provider')
  const given = new Map(field.map((text) => readField(text, provider)))
  const missing = provider.fields.filter((one) => one.is_required && !given.has(one.name))
  if (missing.length > 0 && !process.stdin.isTTY)
    throw new UsageError(
      `${provider.title} needs ${missing.map((one) => `--field ${one.name}=${one.is_secret ? '@FILE' : '…'} (${one.label})`).join(', ')}. Needed: ${provider.rights}`,
      'missing_credentials',
    )
  if (missing.length > 0) process.stderr.write(`Needed: ${provider.rights} ${provider.token_url ?? ''}\n`)
  for (const one of missing) given.set(one.name, await prompt(one))
  return { provider: provider.name as Request['provider'], credentials: Object.fromEntries(given) }
}

type Provider = Awaited<ReturnType<CommandApi['domains']['getPublish']>>['data']['providers'][number]

function readField(text: string, { title, fields }: Provider): [name: string, value: string] {
  const at = text.indexOf('=')
  const [name, value] = [text.slice(0, Math.max(at, 0)), text.slice(at + 1)]
  const field = fields.find((known) => known.name === name)
  if (!field)
    throw new UsageError(
      `${name && `There is no field ${name}: `}${title} takes --field ${fields.map((one) => `${one.name}=…`).join(', ')}.`,
    )
  if (value.startsWith('@')) return [name, readInput(value.slice(1), field.label).toString().trim()]
  if (!field.is_secret) return [name, value]
  throw new UsageError(
    `Others on this machine can read the command line: write ${name} into a file and use --field ${name}=@FILE, or leave it out to be asked.`,
  )
}

/** Asks on the terminal; what is secret is not echoed. */
function prompt({ label, hint, is_secret: isSecret }: Provider['fields'][number]): Promise<string> {
  process.stderr.write(`${label}${hint === null ? '' : ` (${hint})`}: `)
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output: isSecret ? silent : process.stderr, terminal: true })
  const { promise, resolve } = Promise.withResolvers<string>()
  lines.question('', (answer) => {
    lines.close()
    if (isSecret) process.stderr.write('\n')
    resolve(answer.trim())
  })
  return promise
}

function formatRecords({ records, zone, provider, summary }: Result): string {
  const rows = records.map(({ action, key, type, name }) => [action, key, type, name])
  const notes = records.flatMap(({ action, key, before, after, reason }) => {
    if (action === 'leave') return []
    const removed = before.filter((value) => !after.includes(value)).map((value) => `\n  - ${value}`)
    const added = after.filter((value) => !before.includes(value)).map((value) => `\n  + ${value}`)
    return [`${key}: ${reason}${[...removed, ...added].join('')}`]
  })
  return output.joinParagraphs(
    `Zone ${zone} at ${provider}:`,
    output.formatTable(['', 'RECORD', 'TYPE', 'NAME'], rows),
    notes.join('\n'),
    summary,
  )
}
