/**
 * @module Every command with `--json`, without a service: what it prints when it is done, and its errors. The table must
 * name each command of the program. Where root runs the tests, another user owns the data and must still own them
 * after each command.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { chownSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Command } from 'commander'
import { createProgram } from '#app/cli/program.ts'
import { addBenchCommand } from '#bench/sending.ts'
import { findAccountByUuid } from '#features/core/accounts/accounts.ts'
import { toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { storeDomainReport } from '#features/receiving/domain-reports/store.ts'
import { storeOperatorMail } from '#features/receiving/postmaster/store.ts'
import { addFinding } from '#features/reporting/abuse/pause.ts'
import { acceptRequest } from '#features/sending/accept/accept.ts'
import { startBroadcast } from '#features/sending/broadcasts/start.ts'
import { createList } from '#features/setup/contact-store/change-list.ts'
import { createWebhook } from '#features/webhooks/webhooks/manage/change.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
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
  withApp,
} from '#test/app/process.ts'
import { dmarcXml } from '#test/protocols/aggregate-reports/samples.ts'
import { addContacts } from '#test/support/broadcasts.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { startUpdateServer } from '#test/support/update-server.ts'

setDefaultTimeout(300_000)

const IS_ROOT = process.getuid?.() === 0
const UNKNOWN = '0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000'

/** The ids of what exists, for the arguments. */
type Ids = Readonly<
  Record<
    | 'dns'
    | 'dnsSecret'
    | 'draft'
    | 'email'
    | 'letter'
    | 'webhook'
    | 'operation'
    | 'mail'
    | 'otherMail'
    | 'report'
    | 'inbound',
    string
  >
>

interface Case {
  readonly name: readonly string[]
  readonly args: readonly string[]
  /** `list`: `data` has rows; `one`: another object; `lines`: one object a line; `error`: only an error. */
  readonly prints: string
  /** Arguments with which the command fails, and its exit code. */
  readonly fails: readonly [args: readonly string[], exitCode: number] | undefined
}

/** Commands that exit with 1, because they have found a problem. */
const FINDS_PROBLEM = [
  'cluster step-down',
  'domains verify',
  'domains rules',
  'import postal',
  'providers resume',
  'doctor',
]
/** Commands that also run without data. */
const NEEDS_NO_DATA = [
  'accounts create',
  'cluster',
  'cluster step-down',
  'restore',
  'config',
  'health',
  'doctor',
  'bench',
]

/** What it prints, name and arguments of each command, in the order in which they run; after `!` how one fails. */
const createTable = (ids: Ids, stub: string): string => `
one   accounts create : --name New --email n@new.test ! 2 --name x
list  accounts list
one   accounts pool : Acme ! 2 Acme x --none
one   accounts pause : New --reason x ! 1 none --reason x
one   accounts resume : New ! 1 none
list  accounts findings ! 1 none
one   accounts show : New ! 1 none
one   accounts plan : New pro ! 2 New
one   accounts delete : New --confirm New ! 1 Acme --confirm New
list  accounts deletions
one   keys create : --name k --daily-limit 5 --allow-recipient @one.test ! 1 --name k --drafts --scope domains:write
one   keys import : an-operators-own-key-0001 --name i ! 1 short --name i
list  keys list ! 1 --account none
one   keys revoke : k ! 1 none
one   keys rotate-master
list  keys list-master
one   users create : olga@ops.test ! 1 nobody
list  users list
one   users reset : olga@ops.test ! 1 none@ops.test
one   users role : olga@ops.test owner ! 2 olga@ops.test king
one   users totp-off : olga@ops.test ! 1 none@ops.test
one   users operator : olga@ops.test ! 1 none@ops.test
list  users sessions : olga@ops.test ! 1 none@ops.test
one   users sign-out : olga@ops.test ! 1 none@ops.test
one   users remove : olga@ops.test ! 1 none@ops.test
one   domains add : other.test ! 1 no_domain
list  domains list
one   domains records : other.test ! 1 none.test
list  domains rotate-dkim : --all ! 2
one   domains verify : other.test ! 1 none.test
one   domains publish : other.test --provider rfc2136 --field server=${ids.dns} --field key_name=full --field secret=@${ids.dnsSecret} --dry-run ! 2 other.test --provider none
one   domains rules : other.test ! 1 none.test
one   domains remove : other.test --yes ! 1 sender.test
lines send : --from a@captured.test --to b@one.test ! 1 --from a@none.test --to b@one.test
list  emails list ! 2 --until soon
one   emails show : ${ids.email} ! 1 ${UNKNOWN}
one   emails explain : ${ids.email} ! 1 ${UNKNOWN}
one   emails retry : ${ids.email} ! 1 ${UNKNOWN}
one   emails release : ${ids.draft} ! 1 ${ids.email}
one   emails cancel : ${ids.email} ! 1 ${UNKNOWN}
one   emails resend : ${ids.email} ! 1 ${UNKNOWN}
one   explain : ${ids.email} ! 1 ${UNKNOWN}
list  queue ! 2 --limit 0
one   queue hold : --domain one.test --yes ! 1 --domain one.test
one   queue redirect : --domain one.test --yes --to two.test ! 2 --domain one.test --yes
list  queue release : --domain one.test --yes --only hold ! 1 --only hold --yes
one   queue retry : --domain one.test --yes ! 1 --yes
one   queue drop : --domain one.test --yes ! 1 --email x --account Acme --yes
one   queue bounce : --domain one.test --yes --reason x ! 1 --provider none --reason x --yes
list  dead-letters list ! 2 --reason x
list  dead-letters retry : ${ids.letter} ! 1 999999
one   fence ! 2 --limit x
list  providers
one   providers reputation ! 2 --days x
error providers resume : gmail
one   cluster
error cluster step-down
list  operations list ! 1 --account none
one   operations show : ${ids.operation} ! 1 ${UNKNOWN}
one   operations pause : ${ids.operation} ! 1 ${UNKNOWN}
one   operations resume : ${ids.operation} ! 1 ${UNKNOWN}
one   operations cancel : ${ids.operation} ! 1 ${UNKNOWN}
list  lists ! 1 --account none
one   people show : b@x.test ! 1 nobody
one   suppressions add : b@x.test ! 1 nobody
list  suppressions list ! 2 --limit 1001
list  suppressions remove : b@x.test ! 1 b@x.test --account none
one   suppressions import : addresses.csv ! 1 none.csv
error import postal : mysql://root@127.0.0.1:9/postal
list  templates import : --from postmark --url ${stub} ! 2 --from x
list  import mailgun : --file unsubscribes.csv --apply ! 2 --file none.csv
list  import ses : --file suppressed.csv ! 1 --file none.csv
list  import sendgrid : --file unsubscribes.csv ! 2 --file none.csv
list  import postmark : --file suppressed.csv ! 1 --file none.csv
list  import resend : --file suppressed.csv ! 1 --file none.csv
list  import brevo : --file suppressed.csv ! 1 --file none.csv
list  webhooks list ! 1 --account none
one   webhooks secret : ${ids.webhook} --reveal ! 2 ${ids.webhook}
one   webhooks test : ${ids.webhook} ! 1 ${UNKNOWN}
list  webhooks deliveries : ${ids.webhook} ! 1 ${UNKNOWN}
one   api : GET /v1/account ! 1 GET /v1/acount
list  complaints ! 1 --account none
list  inbound list ! 2 --limit 0
list  inbound retry : ${ids.inbound} ! 1 ${UNKNOWN}
list  mail list ! 2 --kind x
one   mail show : ${ids.mail} ! 1 ${UNKNOWN}
one   mail retry : ${ids.mail} ! 1 ${UNKNOWN}
one   mail delete : ${ids.otherMail} ! 1 ${UNKNOWN}
list  reports list ! 2 --limit 0
list  reports import : REPORTS/r.xml ! 1 NONE.xml
one   reports show : ${ids.report} ! 1 ${UNKNOWN}
list  certificates list
one   certificates retry ! 2 x
one   audit verify ! 2 --expect x
list  audit list ! 2 --since soon
list  logs ! 1 --account none
one   backup : BACKUPS --with-key ! 2 BACKUPS --keep 0
one   restore : BACKUPS/* --into RESTORED ! 1 NONE
one   disk
one   retention run
one   check
list  config
one   health
one   doctor
one   bench : --emails 20 --runs 1 ! 2 --emails none
one   fence mark : --taken-at 2h ! 2 --taken-at soon
one   fence release : --since 16:47 --domain three.test --yes ! 2 --since soon --yes
one   fence drop : --yes ! 1 --yes
`

const parseTable = (table: string): Case[] =>
  table
    .trim()
    .split('\n')
    .map((line) => {
      const parts = /^(\w+) +([^:!]+?)(?: : (.*?))?(?: ! (\d)(.*))?$/.exec(line) ?? []
      const [, prints = '', name = '', args = '', code, failing = ''] = parts
      const split = (text: string) => text.split(' ').filter((word) => word !== '')
      const fails = code === undefined ? undefined : ([split(failing), Number(code)] as const)
      return { name: split(name), args: split(args), prints, fails }
    })

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
  writeFileSync(join(files.path, 'unsubscribes.csv'), 'email,created\nd@x.test,1\n')
  writeFileSync(join(files.path, 'suppressed.csv'), 'EmailAddress,Reason,CreatedAt\nd@x.test,bounce,1\n')
  const { credentials } = await startUpdateServer()
  writeFileSync(join(files.path, 'tsig'), credentials.secret)
  mkdirSync(join(files.path, 'REPORTS'))
  writeFileSync(join(files.path, 'REPORTS', 'r.xml'), dmarcXml({ domain: 'sender.test', reportId: 'imported' }))
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
  const ids = {
    ...stored,
    dns: credentials.server,
    dnsSecret: join(files.path, 'tsig'),
    email: await send('ada@four.test'),
    letter: letter?.id ?? '',
    report: report?.id ?? '',
    mail: mail?.id ?? '',
    otherMail: otherMail?.id ?? '',
  }
  cases = parseTable(createTable(ids, stub.url.href))
})

afterAll(async () => {
  data[Symbol.dispose]()
  files[Symbol.dispose]()
  await stub.stop(true)
})

/** Stores what only a service would: received mail, a report, a finding, a webhook and a broadcast. */
async function storeRows(accountId: string): Promise<Pick<Ids, 'draft' | 'webhook' | 'operation' | 'inbound'>> {
  return withApp(settings, async (app) => {
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
    const agent = { ...actor, limits: { drafts: true as const } }
    const draft = { from: 'ada@sender.test', to: 'ada@one.test', subject: 'x', text_body: 'x' }
    const { response } = await acceptRequest(app, agent, draft, undefined, () => undefined)
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
    return { draft: response.id, webhook: formatUuid(webhook.uuid), operation, inbound }
  })
}

const run = async (args: readonly string[], env: Settings) => {
  const located = args.map((arg) => {
    if (!/^[A-Z]{4,}|\.csv$/.test(arg)) return arg
    const path = join(files.path, arg)
    return path.endsWith('/*') ? join(dirname(path), readdirSync(dirname(path))[0] ?? '') : path
  })
  // It reads a token from standard input.
  return args[0] === 'templates' ? runTassisProcess(located, env, 'token') : runTassis(located, env)
}

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

function describeShape(printed: unknown): string {
  if (typeof printed !== 'object' || printed === null || Array.isArray(printed)) return 'nothing'
  return Array.isArray((printed as { data?: unknown }).data) ? 'list' : 'one'
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
  for (const { name, args, prints, fails } of cases) {
    const exitCode = FINDS_PROBLEM.includes(name.join(' ')) ? 1 : 0
    const done = await run([...name, ...args, '--json'], settings)
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
    const failed = await run([...name, ...fails[0], '--json'], settings)
    expect({ name, ...describeFailure(failed) }).toEqual({ name, ...failure(fails[1]) })
  }
})

test('each command with --json is in the table', () => {
  const findNames = (command: Command, names: readonly string[]): string[] => [
    ...(command.options.some(({ long }) => long === '--json') ? [names.join(' ')] : []),
    ...command.commands.flatMap((inner) => findNames(inner, [...names, inner.name()])),
  ]
  const known = new Set(cases.map(({ name }) => name.join(' ')))
  expect([...known].sort()).toEqual(findNames(createProgram([], addBenchCommand), []).sort())
})

test('without data, and with a wrong setting, every command ends with 2 and creates nothing', async () => {
  using empty = createDataFolder()
  const without = { ...settings, TASSIS_DATA_DIR: empty.path }
  for (const { name, args } of cases) {
    const command = [...name, ...args, '--json']
    // A token on standard input is read before.
    if (command[0] === 'templates') continue
    const wrong = await run(command, { ...without, TASSIS_WORKERS: 'x' })
    if (command[0] !== 'bench') expect({ command, ...describeFailure(wrong) }).toEqual({ command, ...failure(2) })
    if (NEEDS_NO_DATA.includes(name.join(' '))) continue
    const failed = await run(command, without)
    expect({ command, ...describeFailure(failed) }).toEqual({ command, ...failure(2) })
  }
  expect(readdirSync(empty.path)).toEqual([])
})
