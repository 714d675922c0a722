import { expect, setDefaultTimeout, test } from 'bun:test'
import { createDataFolder, runTassis, runTassisJson } from './process.ts'

// Processes start slowly on a busy machine.
setDefaultTimeout(300_000)

test('tassis accounts pool shows, chooses and ends the pools of an account and of its streams', async () => {
  using data = createDataFolder()
  const settings = { ...data.settings, TASSIS_OUTBOUND_IPS: '127.0.0.2, 127.0.0.3@news, 127.0.0.4@receipts' }
  const run = (...args: string[]) => runTassis(['accounts', 'pool', 'Acme', ...args], settings)
  await runTassis(['accounts', 'create', '--name', 'Acme', '--email', 'owner@acme.test'], settings)
  expect((await run()).stdout).toContain('Acme has no pool')
  expect((await run('news')).stdout).toBe('The mail of Acme leaves from the addresses of the pool news.\n')
  const both = [
    'The mail of Acme leaves from the addresses of the pool news.',
    'Mail of its stream transactional leaves from the addresses of the pool receipts.',
    '',
  ].join('\n')
  expect((await run('receipts', '--stream', 'transactional')).stdout).toBe(both)
  // Without a name it changes nothing.
  expect((await run()).stdout).toBe(both)
  expect(await runTassisJson(['accounts', 'show', 'Acme'], settings)).toMatchObject({
    pool: 'news',
    stream_pools: [{ stream: 'transactional', pool: 'receipts' }],
  })
  expect((await run('--none')).stdout).toContain('Acme has no pool')
  expect(await runTassisJson(['accounts', 'pool', 'Acme', '--none', '--stream', 'transactional'], settings)).toEqual({
    account: 'Acme',
    pool: null,
    stream_pools: [],
  })
  for (const [args, code, problem] of [
    [['typo'], 1, 'there are news, receipts'],
    [['news', '--stream', 'typo'], 1, 'has no stream "typo"'],
    [['news', '--none'], 2, 'Name a pool or use --none'],
    [['--stream', 'transactional'], 2, 'Name the pool for the stream'],
  ] as const) {
    const { exitCode, stderr } = await run(...args)
    expect([exitCode, stderr]).toEqual([code, expect.stringContaining(problem)])
  }
  const { stdout } = await runTassis(['audit', 'list', '--action', 'operator.account_pool_set', '--json'], settings)
  expect(stdout.match(/operator\.account_pool_set/g)?.length).toBe(4)
})
