/**
 * @module Random writes and maintenance at a leader that crashes at a random append: its directory, recovered, is page for
 * page that of a node which only followed, has every acknowledged write, and can lead or follow from there.
 */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { createContentReader } from '#platform/content/read.ts'
import { zeroPages } from '#platform/db/scrub.ts'
import { Follower } from '#platform/replication/follower.ts'
import { type Position, readPosition } from '#platform/replication/position.ts'
import { listDatabases } from '#platform/replication/recover.ts'
import { CLUSTER } from './database.ts'
import { Asked, Leading, type Step, steps } from './leading.ts'
import { MemoryLog } from './memory-log.ts'

/** How many sequences are tried, and from which seed; a failure prints its seed. */
const RUNS = Number(process.env['REPLICATION_TEST_RUNS'] ?? 25)
const seed = Number(process.env['REPLICATION_TEST_SEED'] ?? 20_261_129)

/** Also ends the search for a shorter sequence that fails. */
const MAX_SEARCH_MS = 60_000

interface Plan {
  readonly before: readonly Step[]
  readonly after: readonly Step[]
  readonly crashAt: number
  /** Whether the append at which it crashes is in the log. */
  readonly isAppended: boolean
  readonly isPowerCut: boolean
  /** Whether the node that crashed leads next. */
  readonly leadsAgain: boolean
  readonly seed: number
}

const plans: fc.Arbitrary<Plan> = fc.record({
  before: steps,
  after: steps,
  crashAt: fc.integer({ min: 1, max: 25 }),
  isAppended: fc.boolean(),
  isPowerCut: fc.boolean(),
  leadsAgain: fc.boolean(),
  seed: fc.nat(),
})

const position = (seq: number, epoch: number): Position => ({
  cluster: CLUSTER,
  directory: CLUSTER,
  seq,
  crc: 0,
  epoch,
  wals: {},
})

/** Makes the directory that of a node at the end of the log. */
async function follow(dataDir: string, log: MemoryLog): Promise<Follower> {
  const follower = new Follower(log.log, dataDir, readPosition(dataDir) ?? position(0, 0))
  await follower.recover()
  await follower.catchUp()
  await follower.save()
  follower.close()
  return follower
}

/** Makes appends stop at one of them; resolves then. */
function crashAtAppend(log: MemoryLog, { crashAt, isAppended }: Plan): Promise<void> {
  const crashed = Promise.withResolvers<void>()
  let appends = 0
  const onAppend = (): Promise<void> | void => {
    if (++appends < crashAt) return
    crashed.resolve()
    return log.stuck.promise
  }
  if (isAppended) log.onAnswer = onAppend
  else log.onArrival = onAppend
  return crashed.promise
}

/** What differs between the databases of two directories. */
function findDifferences(one: string, other: string, mayBeScrubbed: boolean): string[] {
  const files = [...new Set([...listDatabases(one), ...listDatabases(other)])]
  return files.flatMap((file) => {
    const paths = [join(one, file), join(other, file)]
    for (const path of paths)
      if (existsSync(`${path}-wal`) && readFileSync(`${path}-wal`).length > 0) return [`${path} has a write-ahead log`]
    const [a = Buffer.alloc(0), b = Buffer.alloc(0)] = paths.map((path) =>
      existsSync(path) ? readFileSync(path) : undefined,
    )
    if (a.equals(b) || (mayBeScrubbed && scrub(a).equals(scrub(b)))) return []
    // A database that a leader has only created; whoever leads next does so too.
    if (Math.min(a.length, b.length) === 0 && Math.max(a.length, b.length) <= 16_384) return []
    const page = file === 'tassis.db' ? 4096 : 16_384
    const pages = Array.from({ length: Math.ceil(Math.max(a.length, b.length) / page) }, (_, i) => i + 1)
    const differing = pages.filter(
      (n) => !a.subarray((n - 1) * page, n * page).equals(b.subarray((n - 1) * page, n * page)),
    )
    return [`${file}: ${a.length} and ${b.length} bytes, pages ${differing.slice(0, 10).join(' ')}`]
  })
}

function scrub(bytes: Buffer): Buffer {
  const path = join(mkdtempSync(join(tmpdir(), 'tassis-scrub-')), 'copy.db')
  writeFileSync(path, bytes)
  const pages = Array.from({ length: Math.ceil(bytes.length / 4096) }, (_, i) => i + 1)
  const fd = openSync(path, 'r+')
  zeroPages(fd, pages)
  closeSync(fd)
  return readFileSync(path)
}

/** What is wrong with the data of a node. */
function findProblems(dataDir: string, { acknowledged, possible, blobs }: Asked): string[] {
  const problems: string[] = []
  const tokens = new Set<string>()
  for (const file of listDatabases(dataDir).filter((name) => existsSync(join(dataDir, name)))) {
    // Opened as it is: a copy in memory leaves no trace in the directory.
    using db = Database.deserialize(toRollbackMode(readFileSync(join(dataDir, file))), true)
    const [check] = db.query<{ integrity_check: string }, []>('PRAGMA integrity_check').all()
    if (check?.integrity_check !== 'ok') problems.push(`${file}: ${check?.integrity_check}`)
    const tables = db.query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table'").all()
    if (tables.some(({ name }) => name === 'tokens'))
      for (const { token } of db.query<{ token: string }, []>('SELECT token FROM tokens').all()) tokens.add(token)
  }
  for (const token of acknowledged) if (!tokens.has(token)) problems.push(`${token} was acknowledged and is lost`)
  for (const token of tokens) if (!possible.has(token)) problems.push(`${token} failed and is there`)
  const reader = createContentReader(join(dataDir, 'content'))
  for (const [ref, bytes] of blobs) {
    const found = (() => {
      try {
        return Buffer.from(reader.get(ref)).equals(bytes)
      } catch (error) {
        return error
      }
    })()
    if (found !== true) problems.push(`blob ${ref} of ${bytes.length} bytes: ${found}`)
  }
  reader.close()
  return problems
}

/** A database in memory has no write-ahead log; the header says which kind it is (bytes 18 and 19). */
const toRollbackMode = (bytes: Buffer): Buffer => bytes.fill(1, 18, 20)

async function findViolations(plan: Plan): Promise<string[]> {
  const root = mkdtempSync(join(tmpdir(), 'tassis-crash-'))
  const [first, crashed, standby] = ['first', 'crashed', 'standby'].map((name) => {
    mkdirSync(join(root, name))
    return join(root, name)
  }) as [string, string, string]
  const log = new MemoryLog()
  const asked = new Asked()
  try {
    const leading = new Leading(first, log, position(0, log.epoch), asked, plan.seed)
    await leading.leader.savePosition()
    writeFileSync(join(first, 'replica.json'), JSON.stringify(position(0, log.epoch)))
    const crash = crashAtAppend(log, plan)
    await leading.run(plan.before, crash)
    // What goes on at the leader meanwhile must not depend on the append.
    if (plan.seed % 2 === 0) await Bun.sleep(3)
    leading.crash(crashed, plan.isPowerCut)
    const acknowledged = new Asked()
    for (const token of asked.acknowledged) acknowledged.acknowledged.add(token)
    for (const token of asked.possible) acknowledged.possible.add(token)
    for (const [ref, bytes] of asked.blobs) acknowledged.blobs.set(ref, bytes)
    const { mayBeScrubbed } = leading
    const rows = [...log.rows]
    await leading.abandon()
    log.rows = rows
    log.onArrival = () => undefined
    log.onAnswer = () => undefined
    const epoch = log.takeOver()

    const nodes = [await follow(crashed, log), await follow(standby, log)]
    const violations = [
      ...findDifferences(crashed, standby, mayBeScrubbed),
      ...findProblems(crashed, acknowledged),
      ...findProblems(standby, acknowledged).map((problem) => `standby: ${problem}`),
    ]
    if (violations.length > 0) return violations

    const [next, other] = plan.leadsAgain ? [crashed, standby] : [standby, crashed]
    const leader = nodes[plan.leadsAgain ? 0 : 1]
    if (!leader) throw new Error('no leader')
    const again = new Leading(next, log, await leader.lead(epoch), acknowledged, plan.seed + 1)
    await again.run(plan.after, new Promise(() => undefined))
    await again.stop()
    await follow(other, log)
    return [
      ...findDifferences(next, other, mayBeScrubbed || again.mayBeScrubbed),
      ...findProblems(next, acknowledged),
      ...findProblems(other, acknowledged).map((problem) => `other: ${problem}`),
    ].map((problem) => `after the takeover: ${problem}`)
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

test('a leader that crashes at any append recovers to the pages of a standby, with every acknowledged write', async () => {
  await fc.assert(
    fc.asyncProperty(plans, async (plan) => expect(await findViolations(plan)).toEqual([])),
    { seed, numRuns: RUNS, interruptAfterTimeLimit: MAX_SEARCH_MS },
  )
}, 600_000)

test.each([true, false])(
  'so does one whose last commits of many in one write-ahead log are in the log: %p',
  async (isAppended) => {
    const write: Step = { command: { do: 'write', rows: 5, bytes: 500 }, isAwaited: true }
    // Without a position on disk, all of the log would be written over the files again.
    const save: Step = { command: { do: 'save' }, isAwaited: true }
    const before = Array.from({ length: 9 }, () => [write, save]).flat()
    for (const leadsAgain of [true, false])
      expect(
        await findViolations({
          before,
          after: [write],
          crashAt: 6,
          isAppended,
          isPowerCut: false,
          leadsAgain,
          seed: 1,
        }),
      ).toEqual([])
  },
)
