import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { releaseSelected } from '#features/sending/delivery/control/queue-control.ts'
import { type Command, commands, run } from './commands.ts'
import { createModelFolder } from './service.ts'
import { ModelWorld } from './world.ts'

/** How long the test looks for a sequence that breaks a rule; scripts/model-test sets more. */
const SEARCH_MS = Number(process.env['MODEL_TEST_MS'] ?? 10_000)
const MAX_RUNS = 1_000_000
/** The same sequences in every run of the suite, so that it fails only by a change; scripts/model-test looks for more. */
const seed = process.env['MODEL_TEST_SEED'] ?? (process.env['MODEL_TEST_MS'] === undefined ? '20260315' : undefined)
const path = process.env['MODEL_TEST_PATH']
const folder = mkdtempSync(join(tmpdir(), 'tassis-model-settings-'))
const providersFile = join(folder, 'providers.toml')
writeFileSync(
  providersFile,
  '[big]\nmx = ["big.test"]\nconnections = 3\n\n[slow]\nmx = ["mx.slow.test"]\nconnections = 2\nper_second = 1\nper_minute = 20\n',
)
const base = await createModelFolder()
afterAll(() => {
  for (const path of [folder, base.folder]) rmSync(path, { recursive: true, force: true })
})

/** Runs a sequence on a service of its own. Returns what is wrong. */
async function findViolations(sequence: readonly Command[]): Promise<string[]> {
  const world = await ModelWorld.start(base, providersFile)
  try {
    for (const command of sequence) {
      if (command.do === 'jump') world.hasJumped = true
      await run(world, command)
      const found = world.findViolations()
      if (found.length > 0) return found.map((violation) => `after ${JSON.stringify(command)}: ${violation}`)
    }
    await run(world, { do: 'allowWrites' })
    await run(world, { do: 'resume' })
    for (const { emailId, domain } of [{ domain: undefined, emailId: undefined }, ...listHolds(world)])
      await releaseSelected(world.service.app, { accountId: undefined, domain, emailId }, 'hold', () => undefined)
    return await world.findViolationsAfterHealing()
  } finally {
    world.allowWrites()
    await world.service.close()
  }
}

const listHolds = (world: ModelWorld) =>
  world.service.app.db
    .query<{ domain: string | undefined; emailId: number | undefined }, []>(
      'SELECT domain, email_id AS emailId FROM queue_rules',
    )
    .all()

test('a clock set back by a month, a hold and a pause delay scheduled mail, and all of it ends', async () => {
  const sequence: readonly Command[] = [
    { do: 'schedule', domain: 0, inMs: 300_000 },
    { do: 'schedule', domain: 2, inMs: 172_800_000 },
    { do: 'pause' },
    { do: 'holdEmail', pick: 0 },
    { do: 'reschedule', pick: 1, inMs: 0 },
    { do: 'jump', ms: -2_592_000_000 },
    { do: 'pass', ms: 35_000 },
    { do: 'crash' },
    { do: 'accept', domain: 0, count: 1, life: 'normal' },
    { do: 'pass', ms: 120_000 },
  ]
  expect(await findViolations(sequence)).toEqual([])
}, 300_000)

test('mail accepted under a fast clock is sent, although the database refused writes when the clock was set back', async () => {
  const sequence: readonly Command[] = [
    { do: 'accept', domain: 0, count: 1, life: 'normal' },
    { do: 'refuseWrites' },
    { do: 'jump', ms: -2_592_000_000 },
    { do: 'hold', domain: 0 },
    { do: 'ticks', count: 1 },
  ]
  expect(await findViolations(sequence)).toEqual([])
}, 300_000)

test(
  'no sequence of commands, replies, suspensions and crashes loses, doubles or blocks an email',
  async () => {
    let runs = 0
    let last: Promise<unknown> = Promise.resolve()
    const result = await fc.check(
      fc.asyncProperty(fc.array(commands, { minLength: 4, maxLength: 40, size: 'max' }), async (sequence) => {
        runs++
        const found = findViolations(sequence)
        last = found.catch(() => undefined)
        expect(await found).toEqual([])
      }),
      {
        numRuns: MAX_RUNS,
        interruptAfterTimeLimit: SEARCH_MS,
        ...(seed !== undefined && { seed: Number(seed) }),
        ...(path !== undefined && { path }),
      },
    )
    // The end of the time interrupts the check in the middle of a sequence, whose service still has the folder.
    await last
    console.log(`model test: ${runs} sequences, seed ${result.seed}`)
    if (result.failed && result.counterexample)
      throw new Error(`${String(result.errorInstance)}\n${fc.defaultReportMessage(result) ?? ''}`)
    expect(runs).toBeGreaterThan(0)
  },
  SEARCH_MS * 10 + 300_000,
)
