/**
 * @module Every command with `--json`, without a service: what it prints when it is done, and its errors. The table must
 * name each command of the program. Where root runs the tests, another user owns the data and must still own them
 * after each command.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { chownSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { createProgram } from '#app/cli/program.ts'
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import { addBenchCommand } from '#bench/command.ts'
import { findAccountByUuid } from '#features/core/accounts/accounts.ts'
import { toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { storeDomainReport } from '#features/receiving/domain-reports/store.ts'
import { storeOperatorMail } from '#features/receiving/postmaster/store.ts'
import { addFinding } from '#features/reporting/abuse/findings.ts'
import { startBroadcast } from '#features/sending/broadcasts/start.ts'
import { createList } from '#features/setup/contact-store/change-list.ts'
import { createWebhook } from '#features/webhooks/webhooks/manage/change.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { addContacts } from '#test/support/broadcasts.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import {
  type CommandResult,
  createDataFolder,
  type DataFolder,
  listForeign,
  OWNER,
  runTassis,
  runTassisJson,
  runTassisProcess,
  type Settings,
  setUpAccount,
} from './process.ts'

setDefaultTimeout(300_000)

const IS_ROOT = process.getuid?.() === 0
const UNKNOWN = '0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000'

/** The ids of what exists, for the arguments. */
type Ids = Readonly<
  Record<'account' | 'email' | 'letter' | 'webhook' | 'operation' | 'mail' | 'otherMail' | 'report' | 'inbound', string>
>

interface Case {
  /** Names of the command, then its arguments. Commands run in the order of the table. */
  readonly args: readonly string[]
  /** `list`: `data` and `has_more`; `one`: another object; `lines`: one object a line; `error`: only an error. */
  readonly prints: 'list' | 'one' | 'lines' | 'error'
  /** 1 where the command has found a problem. */
  readonly exitCode?: 1
  /** Arguments after the name of the command with which it fails, and its exit code. */
  readonly fails?: readonly [args: readonly string[], exitCode: 1 | 2]
  /** Also runs without data. */
  readonly needsNoData?: true
  readonly stdin?: string
}

const OLGA = 'olga@ops.test'
const ONE_TEST = ['--domain', 'one.test', '--yes']

const createCases = (ids: Ids, stub: string): readonly Case[] => [
  {
    args: ['accounts create', '--name', 'New', '--email', 'n@new.test'],
    prints: 'one',
    fails: [['--name', 'x'], 2],
    needsNoData: true,
  },
  { args: ['accounts list'], prints: 'list' },
  { args: ['accounts pool', 'Acme'], prints: 'one', fails: [['Acme', 'x', '--none'], 2] },
  { args: ['accounts pause', 'New', '--reason', 'x'], prints: 'one', fails: [['none', '--reason', 'x'], 1] },
  { args: ['accounts resume', 'New'], prints: 'one', fails: [['none'], 1] },
  { args: ['accounts findings'], prints: 'list', fails: [['none'], 1] },
  { args: ['accounts show', 'New'], prints: 'one', fails: [['none'], 1] },
  { args: ['accounts plan', 'New', 'pro'], prints: 'one', fails: [['New'], 2] },
  { args: ['accounts delete', 'New', '--confirm', 'New'], prints: 'one', fails: [['Acme', '--confirm', 'New'], 1] },
  { args: ['accounts deletions'], prints: 'list' },
  { args: ['keys create', '--name', 'k'], prints: 'one', fails: [['--name', 'k', '--scope', 'x'], 1] },
  {
    args: ['keys import', 'an-operators-own-key-0001', '--name', 'i'],
    prints: 'one',
    fails: [['short', '--name', 'i'], 1],
  },
  { args: ['keys list'], prints: 'list', fails: [['--account', 'none'], 1] },
  { args: ['keys revoke', 'k'], prints: 'one', fails: [['none'], 1] },
  { args: ['keys rotate-master'], prints: 'one' },
  { args: ['keys list-master'], prints: 'list' },
  { args: ['users create', OLGA], prints: 'one', fails: [['nobody'], 1] },
  { args: ['users list'], prints: 'list' },
  { args: ['users reset', OLGA], prints: 'one', fails: [['none@ops.test'], 1] },
  { args: ['users role', OLGA, 'owner'], prints: 'one', fails: [[OLGA, 'king'], 2] },
  { args: ['users totp-off', OLGA], prints: 'one', fails: [['none@ops.test'], 1] },
  { args: ['users operator', OLGA], prints: 'one', fails: [['none@ops.test'], 1] },
  { args: ['users sessions', OLGA], prints: 'list', fails: [['none@ops.test'], 1] },
  { args: ['users sign-out', OLGA], prints: 'one', fails: [['none@ops.test'], 1] },
  { args: ['users remove', OLGA], prints: 'one', fails: [['none@ops.test'], 1] },
  { args: ['domains add', 'other.test'], prints: 'one', fails: [['no domain'], 1] },
  { args: ['domains list'], prints: 'list' },
  { args: ['domains records', 'other.test'], prints: 'one', fails: [['none.test'], 1] },
  { args: ['domains rotate-dkim', '--all'], prints: 'list', fails: [[], 2] },
  { args: ['domains verify', 'other.test'], prints: 'one', exitCode: 1, fails: [['none.test'], 1] },
  { args: ['domains remove', 'other.test', '--yes'], prints: 'one', fails: [['sender.test'], 1] },
  {
    args: ['send', '--from', 'a@captured.test', '--to', 'b@one.test'],
    prints: 'lines',
    fails: [['--from', 'a@none.test', '--to', 'b@one.test'], 1],
  },
  { args: ['emails list'], prints: 'list', fails: [['--until', 'soon'], 2] },
  { args: ['emails show', ids.email], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['emails explain', ids.email], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['emails retry', ids.email], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['emails cancel', ids.email], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['emails resend', ids.email], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['explain', ids.email], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['queue'], prints: 'one', fails: [['--limit', '0'], 2] },
  { args: ['queue hold', ...ONE_TEST], prints: 'one', fails: [['--domain', 'one.test'], 1] },
  {
    args: ['queue redirect', ...ONE_TEST, '--to', 'two.test'],
    prints: 'one',
    fails: [['--domain', 'one.test', '--yes'], 2],
  },
  { args: ['queue release', ...ONE_TEST, '--only', 'hold'], prints: 'list', fails: [['--only', 'hold', '--yes'], 2] },
  { args: ['queue retry', ...ONE_TEST], prints: 'one', fails: [['--yes'], 2] },
  { args: ['queue drop', ...ONE_TEST], prints: 'one', fails: [['--email', 'x', '--account', 'Acme', '--yes'], 2] },
  {
    args: ['queue bounce', ...ONE_TEST, '--reason', 'x'],
    prints: 'one',
    fails: [['--provider', 'none', '--reason', 'x', '--yes'], 1],
  },
  { args: ['dead-letters list'], prints: 'list', fails: [['--reason', 'x'], 2] },
  { args: ['dead-letters retry', ids.letter], prints: 'list', fails: [['999999'], 1] },
  { args: ['fence'], prints: 'list', fails: [['--limit', 'x'], 2] },
  { args: ['providers'], prints: 'list' },
  { args: ['providers resume', 'gmail'], prints: 'error', exitCode: 1 },
  { args: ['operations list'], prints: 'list', fails: [['--account', 'none'], 1] },
  { args: ['operations show', ids.operation], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['operations pause', ids.operation], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['operations resume', ids.operation], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['operations cancel', ids.operation], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['lists'], prints: 'list', fails: [['--account', 'none'], 1] },
  { args: ['suppressions add', 'b@x.test'], prints: 'one', fails: [['nobody'], 1] },
  { args: ['suppressions list'], prints: 'list', fails: [['--limit', '1001'], 2] },
  { args: ['suppressions remove', 'b@x.test'], prints: 'one', fails: [['b@x.test', '--account', 'none'], 1] },
  { args: ['suppressions import', 'addresses.csv'], prints: 'one', fails: [['none.csv'], 1] },
  {
    args: ['templates import', '--from', 'postmark', '--url', stub],
    prints: 'list',
    fails: [['--from', 'x'], 2],
    stdin: 'token',
  },
  { args: ['webhooks list'], prints: 'list', fails: [['--account', 'none'], 1] },
  { args: ['webhooks secret', ids.webhook, '--reveal'], prints: 'one', fails: [[ids.webhook], 2] },
  { args: ['webhooks test', ids.webhook], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['webhooks deliveries', ids.webhook], prints: 'list', fails: [[UNKNOWN], 1] },
  { args: ['complaints'], prints: 'list', fails: [['--account', 'none'], 1] },
  { args: ['inbound list'], prints: 'list', fails: [['--limit', '0'], 2] },
  { args: ['inbound retry', ids.inbound], prints: 'list', fails: [[UNKNOWN], 1] },
  { args: ['mail list'], prints: 'list', fails: [['--kind', 'x'], 2] },
  { args: ['mail show', ids.mail], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['mail retry', ids.mail], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['mail delete', ids.otherMail], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['reports list'], prints: 'list', fails: [['--limit', '0'], 2] },
  { args: ['reports show', ids.report], prints: 'one', fails: [[UNKNOWN], 1] },
  { args: ['certificates list'], prints: 'list' },
  { args: ['certificates retry'], prints: 'one', fails: [['x'], 2] },
  { args: ['audit verify'], prints: 'one', fails: [['--expect', 'x'], 2] },
  { args: ['audit list'], prints: 'list', fails: [['--since', 'soon'], 2] },
  { args: ['backup', 'BACKUP.tar', '--with-key'], prints: 'one', fails: [['BACKUP.tar', '--keep', '1'], 2] },
  { args: ['restore', 'BACKUP.tar', '--into', 'RESTORED'], prints: 'one', fails: [['NONE.tar'], 1], needsNoData: true },
  { args: ['disk'], prints: 'one' },
  { args: ['retention run'], prints: 'one' },
  { args: ['check'], prints: 'one' },
  { args: ['config'], prints: 'list', needsNoData: true },
  { args: ['health'], prints: 'one', needsNoData: true },
  { args: ['doctor'], prints: 'one', exitCode: 1, needsNoData: true },
  {
    args: ['bench', '--stored', 'none', '--events', '0', '--received', '0', '--list', '20', '--runs', '1'],
    prints: 'one',
    fails: [['--stored', 'none', '--events', '0', '--received', '0', '--list', '0'], 2],
    needsNoData: true,
  },
  { args: ['fence mark', '--taken-at', '2h'], prints: 'one', fails: [['--taken-at', 'soon'], 2] },
  {
    args: ['fence release', '--since', '16:47', '--domain', 'three.test', '--yes'],
    prints: 'one',
    fails: [['--since', 'soon', '--yes'], 2],
  },
  { args: ['fence drop', '--yes'], prints: 'one', fails: [['--yes'], 1] },
]

let data: DataFolder
let settings: Settings
let cases: readonly Case[]
/** Folder of the files that commands read and write. */
let files: DataFolder

/** Answers as ready, and like Postmark's API without templates. */
const stub = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: () => Response.json({ TotalCount: 0, Templates: [] }),
})

beforeAll(async () => {
  data = createDataFolder()
  files = createDataFolder()
  settings = {
    ...data.settings,
    TASSIS_HTTP_ADDR: stub.url.host,
    TASSIS_ACME_TERMS_AGREED: 'true',
    TASSIS_DOCTOR_BLOCK_LISTS: 'none',
    TASSIS_DOCTOR_TIME_SERVERS: 'none',
    TASSIS_LOG_LEVEL: 'silent',
  }
  writeFileSync(join(files.path, 'addresses.csv'), 'email_address\nc@x.test\n')
  const { accountId } = await setUpAccount(settings, { verified: true })
  const stored = await storeRows(accountId)
  if (IS_ROOT) for (const name of ['', ...listForeign(data.path)]) chownSync(join(data.path, name), OWNER, OWNER)
  await runTassisJson(['domains', 'add', 'captured.test'], settings)
  const send = async (to: string): Promise<string> => {
    const args = ['send', '--from', 'ada@sender.test', '--to', to, '--no-follow']
    return String((await runTassisJson(args, settings))['id'])
  }
  await send('ada@one.test')
  await send('ada@three.test')
  const bounced = await send('ada@two.test')
  await runTassisJson(['queue', 'bounce', '--email', bounced, '--reason', 'x', '--yes'], settings)
  const [letter] = (await runTassisJson<{ data: { id: string }[] }>(['dead-letters', 'list'], settings)).data
  const [report] = (await runTassisJson<{ data: { id: string }[] }>(['reports', 'list'], settings)).data
  const [mail, otherMail] = (await runTassisJson<{ data: { id: string }[] }>(['mail', 'list'], settings)).data
  cases = createCases(
    {
      ...stored,
      account: accountId,
      email: await send('ada@four.test'),
      letter: letter?.id ?? '',
      report: report?.id ?? '',
      mail: mail?.id ?? '',
      otherMail: otherMail?.id ?? '',
    },
    stub.url.href,
  )
})

afterAll(async () => {
  data[Symbol.dispose]()
  files[Symbol.dispose]()
  await stub.stop(true)
})

/** Stores what only a service would: received mail, a report, a finding, a webhook and a broadcast. */
async function storeRows(accountId: string): Promise<Pick<Ids, 'webhook' | 'operation' | 'inbound'>> {
  const opened = openApp(loadConfig({ ...settings }).config)
  try {
    const { app } = opened
    const account = findAccountByUuid(app.config, app.db, parseUuid(accountId) ?? new Uint8Array())
    if (!account) throw new Error('no account')
    const actor = toOperatorActor(account)
    const now = app.clock.now()
    const [rawRef = 0, contentRef = 0] = await app.rawMail.put(
      [Buffer.from('Subject: x\r\n\r\nx'), Buffer.from('{}')],
      now,
    )
    const envelope = {
      mailFrom: 'b@one.test',
      sourceIp: '127.0.0.1',
      helo: 'x',
      tls: null,
      receivedAt: now,
      rawRef,
      sizeBytes: 15,
    }
    await app.commit.write((tx) => {
      const reason = 'To the operator.'
      const message = { envelope, rcptTo: ['abuse@mail.tassis.test'], from: 'b', subject: 'x', reason }
      for (const kind of ['abuse', 'postmaster'] as const) storeOperatorMail(app, tx, { ...message, kind })
      const period = {
        beginMs: now,
        endMs: now,
        organisation: 'x',
        reportId: '1',
        content: Buffer.from('{}'),
        contentRef,
      }
      storeDomainReport(app, tx, { ...period, kind: 'tls', domain: 'sender.test' }, now)
      addFinding(app, tx, { accountId: account.id, source: 'admin', reason: 'x', isPause: false })
    })
    const domain = app.db.query<{ id: number }, []>('SELECT id FROM domains').get()
    const inbound = await storeTestInbound(
      app,
      { accountId: account.id, domainId: domain?.id ?? 0 },
      { raw: 'Subject: x\r\n\r\nx', problem: 'x' },
    )
    const { webhook } = await createWebhook(app, actor, { url: 'https://127.0.0.1:9/', events: ['sent'] })
    const list = await createList(app, actor, { name: 'Friends' })
    await addContacts(app, formatUuid(list.uuid), [{ email: 'c@one.test' }])
    const sendAt = new Date(now + days(1)).toISOString()
    const { operation_id: operation } = await startBroadcast(app, actor, {
      type: 'broadcast',
      list,
      from: 'ada@sender.test',
      subject: 'x',
      html: undefined,
      text: 'x',
      template: undefined,
      templateData: undefined,
      sendAt,
    })
    return { webhook: formatUuid(webhook.uuid), operation, inbound }
  } finally {
    await opened.close()
  }
}

const run = async (args: readonly string[], env: Settings, stdin?: string) => {
  const located = args.map((arg) => (/^[A-Z]{4,}|\.csv$/.test(arg) ? join(files.path, arg) : arg))
  return stdin === undefined ? runTassis(located, env) : runTassisProcess(located, env, stdin)
}

const nameOf = ([name = '']: readonly string[]): string[] => name.split(' ')

const parse = (text: string): unknown => JSON.parse(text)

/** The keys that are not in snake_case, at any depth; JSON of clients has its own. */
function findForeignKeys(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(findForeignKeys)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [
    ...(/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/.test(key) ? [] : [key]),
    ...findForeignKeys(inner),
  ])
}

function describeShape(printed: unknown): Case['prints'] | 'nothing' {
  if (typeof printed !== 'object' || printed === null || Array.isArray(printed)) return 'nothing'
  const { data: rows, has_more: hasMore } = printed as { data?: unknown; has_more?: unknown }
  return Array.isArray(rows) && typeof hasMore === 'boolean' ? 'list' : 'one'
}

const ERROR = {
  error: { code: expect.stringMatching(/^[a-z][a-z_]+$/), message: expect.stringMatching(/^[^\n]{5,}$/) },
}

/** What a failed command printed: an error of one line on standard error, and nothing else. */
const describeFailure = ({ exitCode, stdout, stderr }: CommandResult) => ({
  exitCode,
  stdout,
  lines: stderr.trimEnd().split('\n').length,
  error: JSON.parse(stderr) as unknown,
})
const failure = (exitCode: number) => ({ exitCode, stdout: '', lines: 1, error: ERROR })

test('with --json every command prints a list or an object in snake_case, and fails with an error of one line', async () => {
  for (const { args, prints, exitCode = 0, fails, stdin } of cases) {
    const name = nameOf(args)
    const done = await run([...name, ...args.slice(1), '--json'], settings, stdin)
    if (IS_ROOT) expect({ name, ownedByRoot: listForeign(data.path) }).toEqual({ name, ownedByRoot: [] })
    if (prints === 'error') {
      expect({ name, ...describeFailure(done) }).toEqual({ name, ...failure(exitCode) })
      continue
    }
    const stderr = name[0] === 'bench' ? expect.any(String) : ''
    expect({ name, ...done }).toEqual({ name, exitCode, stdout: expect.stringMatching(/\n$/), stderr } as never)
    const printed = prints === 'lines' ? done.stdout.trimEnd().split('\n').map(parse) : parse(done.stdout)
    expect({ name, prints: Array.isArray(printed) ? 'lines' : describeShape(printed) }).toEqual({ name, prints })
    expect({ name, foreign: findForeignKeys(printed) }).toEqual({ name, foreign: [] })
    if (!fails) continue
    const failed = await run([...name, ...fails[0], '--json'], settings, stdin)
    expect({ name, ...describeFailure(failed) }).toEqual({ name, ...failure(fails[1]) })
  }
})

test('each command with --json is in the table', () => {
  const findNames = (command: Command, names: readonly string[]): string[] => [
    ...(command.options.some(({ long }) => long === '--json') ? [names.join(' ')] : []),
    ...command.commands.flatMap((inner) => findNames(inner, [...names, inner.name()])),
  ]
  const known = new Set(cases.map(({ args }) => nameOf(args).join(' ')))
  expect([...known].sort()).toEqual(findNames(createProgram([], addBenchCommand), []).sort())
})

test('without data, and with a wrong setting, every command ends with 2 and creates nothing', async () => {
  using empty = createDataFolder()
  const without = { ...settings, TASSIS_DATA_DIR: empty.path }
  for (const { args, needsNoData } of cases) {
    const command = [...nameOf(args), ...args.slice(1), '--json']
    // A token on standard input is read before.
    if (command[0] === 'templates') continue
    const wrong = await run(command, { ...without, TASSIS_WORKERS: 'x' })
    if (command[0] !== 'bench') expect({ command, ...describeFailure(wrong) }).toEqual({ command, ...failure(2) })
    if (needsNoData) continue
    const failed = await run(command, without)
    expect({ command, ...describeFailure(failed) }).toEqual({ command, ...failure(2) })
  }
  expect(readdirSync(empty.path)).toEqual([])
})
