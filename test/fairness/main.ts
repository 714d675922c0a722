/**
 * @module The fairness harness: honest tenants send, receive, sign in and read, first undisturbed and then under each
 * attack, each time on a new service. Prints the latencies they saw. See `scripts/fairness --help`.
 */
import { Database } from 'bun:sqlite'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { PLANS } from '#features/core/accounts/plans.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { runTassis, startService, waitUntilReady } from '../kill/service.ts'
import { type Attack, attacks } from './attacks.ts'
import { type HonestLoad, MEASURES, type Measure, startHonestLoad } from './honest.ts'
import { buildSettings, buildZone, createWorld, type World } from './world.ts'

const HELP = `scripts/fairness [--seconds N] [--only ID,ID] [--together] [--tenants N] [--plan PLAN] [--goals] [--keep]

An honest tenant sends 5 messages per second, receives, signs in and reads, while remote clients and another tenant
attack; each attack runs on a new service. Prints p50 and p99 in ms for the honest tenant, idle and under each attack,
and the count of each HTTP status or SMTP code in reply to the attack.
  --seconds N  length of each attack (20)
  --only IDS   only these attacks, such as 1a,9; idle: no attack
  --together   five concurrent attackers instead of one after another
  --tenants N  number of honest tenants (1); several send 25 messages per second together
  --plan PLAN  plan of the attackers (free), whose limits end some attacks early; unlimited: only fair scheduling limits them
  --goals      also fails when a latency exceeds its goal; meaningful only on a quiet machine
  --keep       keeps data and logs
Exit code 1 if anything of an honest tenant was refused, lost, deleted or paused, or an attack could not start.`

const GOALS_MS: Readonly<Partial<Record<Measure, number>>> = {
  acceptance: 250,
  delivery: 2000,
  receipt: 2000,
  'sign-in': 2000,
  healthz: 100,
}
/** Attacks of different kinds, one per attacker. */
const CONCURRENT_ATTACKS = ['3', '5', '8', '9', '10a']
/** How long accepted mail may take to arrive after the attack. */
const DRAIN_MS = 60_000
const WARM_UP_MS = 1500
const MAX_REFUSALS_SHOWN = 5
/** Maximum number of confirmations to one mailbox, from all senders. */
const MAX_CONFIRMATIONS_PER_MAILBOX = 20

const args = readArguments()
const folder = mkdtempSync(join(tmpdir(), 'tassis-fairness-'))
const dns = Bun.spawn([process.execPath, join(import.meta.dir, '..', 'support', 'dns-server.ts'), await writeZone()], {
  stdout: 'pipe',
  stderr: 'inherit',
})
/** Started processes that may still be running. */
const children = new Set<{ kill(): unknown }>([dns])
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    for (const child of children) child.kill()
    process.exit(130)
  })
const dnsAddress = (await firstLine(dns.stdout)).trim()
const ports = { http: await findFreePort(), inbound: await findFreePort(), mx: await findFreePort() }
const url = `http://127.0.0.1:${ports.http}`
const template = join(folder, 'template')
const world: World = await createWorld(buildSettings(template, ports, dnsAddress), args.tenants, args.plan)
const failures: string[] = []

printHead()
if (args.only === undefined || args.only.includes('idle')) await measure('idle', [])
const chosen = attacks.filter(({ id }) => args.only === undefined || args.only.includes(id))
if (args.together)
  await measure(
    `${CONCURRENT_ATTACKS.join(', ')} together`,
    attacks.filter(({ id }) => CONCURRENT_ATTACKS.includes(id)),
  )
else for (const attack of chosen) await measure(`${attack.id} ${attack.name}`, [attack])

dns.kill()
await dns.exited
for (const failure of failures) console.log(`FAILED ${failure}`)
if (args.keep) console.log(`Data and logs are kept in ${folder}`)
else rmSync(folder, { recursive: true, force: true })
process.exit(failures.length > 0 ? 1 : 0)

/** Measures one row: a new service, the honest load and the concurrent attacks, each by its own attacker. */
async function measure(name: string, running: readonly Attack[]): Promise<void> {
  const runFolder = join(folder, `run-${running.map(({ id }) => id).join('-') || 'idle'}`)
  cpSync(template, runFolder, { recursive: true })
  const settings = {
    ...buildSettings(runFolder, ports, dnsAddress),
    ...Object.assign({}, ...running.map((attack) => attack.settings ?? {})),
  }
  const service = startService(settings, join(runFolder, 'service.log'))
  children.add(service)
  const broken: string[] = []
  let load: HonestLoad | undefined
  const attackers: Bun.Subprocess<'ignore', 'pipe', 'inherit'>[] = []
  try {
    await waitUntilReady(service, url)
    await waitUntilListening()
    for (const { madeOnce } of running) if (madeOnce !== undefined) await fetch(`${url}${madeOnce}`)
    load = await startHonestLoad({
      url,
      inboundPort: ports.inbound,
      mxPort: ports.mx,
      tenants: world.honest,
      sendsPerSecond: args.tenants === 1 ? 5 : 25,
    })
    await Bun.sleep(WARM_UP_MS)
    const before = Object.fromEntries(MEASURES.map((measured) => [measured, load?.log.samplesMs[measured].length ?? 0]))
    const started: Promise<unknown>[] = []
    for (const [index, attack] of running.entries()) {
      const { [index]: attacker } = world.attackers
      const others = world.attackers.filter((_, at) => at !== index)
      const context = {
        url,
        inboundPort: ports.inbound,
        mxPort: ports.mx,
        attacker,
        others,
        honest: world.honest[0],
        messages: load.log.newest,
      }
      const program = join(import.meta.dir, 'attacker.ts')
      const { promise: isAttacking, resolve: onAttacking } = Promise.withResolvers<void>()
      const attackProcess = Bun.spawn(
        [process.execPath, program, attack.id, String(args.seconds), JSON.stringify(context)],
        {
          stdin: 'ignore',
          stdout: 'pipe',
          stderr: 'inherit',
          ipc: () => onAttacking(),
        },
      )
      attackers.push(attackProcess)
      children.add(attackProcess)
      started.push(Promise.race([isAttacking, attackProcess.exited]))
    }
    // On a busy machine the programs alone may take as long to start as a short attack lasts.
    await Promise.all(started)
    await Bun.sleep(args.seconds * 1000)
    const ended = load
    const stopped = load.stop()
    for (const attacker of attackers) attacker.kill()
    if (running.some(({ id }) => id === '7')) await runRetention(settings, broken)
    await stopped
    const until = performance.now() + DRAIN_MS
    while (ended.undelivered() + ended.unreceived() > 0 && performance.now() < until) await Bun.sleep(50)
    if (ended.undelivered() > 0) broken.push(`${ended.undelivered()} accepted emails did not arrive`)
    if (ended.unreceived() > 0) broken.push(`${ended.unreceived()} received messages have no event`)
    broken.push(...(await findHarm(ended, join(runFolder, 'data', 'tassis.db'))))
    const refusals = ended.log.refusals
    for (const refusal of refusals.slice(0, MAX_REFUSALS_SHOWN)) broken.push(refusal)
    if (refusals.length > MAX_REFUSALS_SHOWN) broken.push(`and ${refusals.length - MAX_REFUSALS_SHOWN} more`)
    const replies: string[] = []
    for (const [index, attacker] of attackers.entries()) {
      const id = running[index]?.id
      if ((await attacker.exited) !== 0) broken.push(`attack ${id} could not start`)
      replies.push(`${running.length > 1 ? `${id}: ` : ''}${formatReplies(await new Response(attacker.stdout).text())}`)
    }
    printRow(replies.length > 0 ? `${name} (${replies.join('; ')})` : name, ended, before)
    if (args.goals) broken.push(...findMissedGoals(ended, before))
  } catch (error) {
    broken.push(error instanceof Error ? error.message : String(error))
  } finally {
    for (const attacker of attackers) attacker.kill('SIGKILL')
    load?.close()
    if (service.isRunning()) {
      const stopping = service.stop()
      const isStopped = await Promise.race([stopping.then(() => true), Bun.sleep(DRAIN_MS).then(() => false)])
      if (!isStopped) await service.kill()
    } else broken.push('the service ended unexpectedly')
    if (!args.keep) rmSync(runFolder, { recursive: true, force: true })
  }
  for (const failure of broken) failures.push(`${name}: ${failure}`)
}

/** Formats the replies to an attack: the count of each status or SMTP code. */
function formatReplies(printed: string): string {
  const replies = (printed === '' ? [] : JSON.parse(printed)) as [string, number][]
  return replies.map(([reply, count]) => `${reply} × ${count}`).join(', ') || 'no reply'
}

/** Waits for the SMTP listener, which is ready shortly after HTTP. */
async function waitUntilListening(): Promise<void> {
  for (let attempt = 0; attempt < 500; attempt++) {
    const client = await connectSmtp(ports.inbound).catch(() => undefined)
    if (client) return client.destroy()
    await Bun.sleep(20)
  }
  throw new Error('the SMTP listener did not start')
}

/** Lists the harm done to the honest tenants' accounts, one sentence each. */
async function findHarm(load: HonestLoad, databasePath: string): Promise<string[]> {
  const harm: string[] = []
  using db = new Database(databasePath, { readonly: true })
  db.run('PRAGMA busy_timeout = 5000')
  const [honest] = world.honest
  if (!honest) return harm
  const paused = db
    .query<{ paused: number | null }, [number]>('SELECT paused_at AS paused FROM accounts WHERE id = ?')
    .get(honest.accountId)
  if (paused?.paused) harm.push('the honest account was paused')
  const received = db
    .query<{ n: number }, [number, string]>(
      'SELECT count(*) AS n FROM inbound_emails WHERE account_id = ? AND mail_from = ?',
    )
    .get(honest.accountId, 'bob@partner.test')
  const receiptCount = load.log.samplesMs.receipt.length
  if ((received?.n ?? 0) < receiptCount) harm.push(`of ${receiptCount} received messages ${received?.n ?? 0} are left`)
  const confirmations = [...load.log.others].filter(([address]) => address.endsWith('@gmail.com'))
  const sum = confirmations.reduce((total, [, count]) => total + count, 0)
  if (sum > MAX_CONFIRMATIONS_PER_MAILBOX) harm.push(`one mailbox got ${sum} confirmations`)
  return harm
}

async function runRetention(settings: Readonly<Record<string, string>>, broken: string[]): Promise<void> {
  const { code, output } = await runTassis(settings, 'retention', 'run')
  if (code !== 0) broken.push(`retention run failed: ${output}`)
}

/** Selects the samples taken during the attack, sorted. */
function selectSamples(load: HonestLoad, before: Readonly<Record<string, number>>, measured: Measure): number[] {
  return load.log.samplesMs[measured].slice(before[measured] ?? 0).sort((a, b) => a - b)
}

function quantile(sorted: readonly number[], fraction: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? Number.NaN
}

function findMissedGoals(load: HonestLoad, before: Readonly<Record<string, number>>): string[] {
  return MEASURES.flatMap((measured) => {
    const goal = GOALS_MS[measured]
    const p99 = quantile(selectSamples(load, before, measured), 0.99)
    return goal !== undefined && p99 > goal ? [`p99 of ${measured} is ${p99.toFixed(0)} ms, over ${goal}`] : []
  })
}

function printHead(): void {
  console.log(
    `${args.tenants} honest, ${args.seconds} s each; p50 / p99 in ms, * over its goal (${Object.entries(GOALS_MS)
      .map(([measured, goal]) => `${measured} ${goal}`)
      .join(', ')})`,
  )
  console.log(`${MEASURES.map((measured) => measured.padStart(15)).join('')}  attack`)
}

function printRow(name: string, load: HonestLoad, before: Readonly<Record<string, number>>): void {
  const cells = MEASURES.map((measured) => {
    const sorted = selectSamples(load, before, measured)
    const p99 = quantile(sorted, 0.99)
    const mark = p99 > (GOALS_MS[measured] ?? Number.POSITIVE_INFINITY) ? '*' : ''
    return `${quantile(sorted, 0.5).toFixed(0)} / ${p99.toFixed(0)}${mark}`.padStart(15)
  })
  console.log(`${cells.join('')}  ${name}`)
}

async function writeZone(): Promise<string> {
  const path = join(folder, 'zone.json')
  await Bun.write(path, JSON.stringify(buildZone()))
  return path
}

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  const reader = stream.getReader()
  const { value } = await reader.read()
  reader.releaseLock()
  return new TextDecoder().decode(value)
}

function readArguments() {
  const refuse = (): never => {
    console.error(HELP)
    process.exit(2)
  }
  try {
    const { values } = parseArgs({
      options: {
        seconds: { type: 'string', default: '20' },
        only: { type: 'string' },
        together: { type: 'boolean', default: false },
        tenants: { type: 'string', default: '1' },
        plan: { type: 'string', default: 'free' },
        goals: { type: 'boolean', default: false },
        keep: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    })
    if (values.help) {
      console.log(HELP)
      process.exit(0)
    }
    const seconds = Number(values.seconds)
    const tenants = Number(values.tenants)
    const only = values.only?.split(',')
    const isKnown = (id: string) => id === 'idle' || attacks.some((attack) => attack.id === id)
    const plan = PLANS.find((name) => name === values.plan)
    if (!plan) return refuse()
    if (!(seconds >= 2 && seconds <= 600) || !(tenants >= 1 && tenants <= 200) || only?.every(isKnown) === false)
      return refuse()
    return { ...values, seconds, tenants, only, plan }
  } catch {
    return refuse()
  }
}
