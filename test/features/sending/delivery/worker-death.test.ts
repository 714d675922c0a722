import { afterEach, beforeEach, expect, test } from 'bun:test'
import { createDomain } from '#features/setup/domains/domains.ts'
import { toDkimKeyContext } from '#features/setup/domains/sending.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { recipientsOf, watchWorkers } from './flows.ts'

/** The delivery Workers of the test, oldest first; dead ones stay in the list. */
let workers: Worker[] = []
let onStart: (worker: Worker) => void = () => undefined
let watched: Disposable

beforeEach(() => {
  workers = []
  onStart = () => undefined
  watched = watchWorkers((worker) => {
    workers.push(worker)
    onStart(worker)
  })
})
afterEach(() => watched[Symbol.dispose]())

/** Causes an exception that nothing in the Worker catches. */
const crash = (worker: Worker | undefined): void => worker?.postMessage('not JSON')

const zone = { 'receiver.test': { A: ['127.0.0.1'] }, 'other.test': { A: ['127.0.0.1'] } }
const settings = { TASSIS_WORKERS: '1' }

test('a Worker that dies leaves begun messages uncertain and defers the others', async () => {
  const never = new Promise<never>(() => undefined)
  await using server = await startScriptedSmtp({
    rcpt: (line) => (line.includes('waits') ? never : '250 ok'),
    body: () => never,
  })
  await using flow = await startMailFlow({ zone, settings, smtpPort: server.port })
  const begun = await flow.send({ to: 'begun@receiver.test' })
  const unbegun = await flow.send({ to: 'waits@other.test' })
  await eventually(() => server.sessions.some(({ messages }) => messages.length === 1))
  await server.until(() => server.sessions.some(({ commands }) => commands.some((line) => line.includes('waits'))))
  crash(workers[0])
  expect((await flow.settled(begun)).recipients).toMatchObject([{ status: 'uncertain', attempts: 1 }])
  expect((await flow.settled(unbegun)).recipients).toMatchObject([
    { status: 'queued', attempts: 1, deliveryStartedAt: null, nextAt: expect.any(Number) },
  ])
  expect(flow.events(unbegun).map(({ type }) => type)).toEqual(['queued', 'deferred'])
  expectBalanced(flow.service)
})

test('a Worker that dies while the start of a message is being stored leaves it uncertain, never sent twice', async () => {
  onStart = (worker) =>
    worker.addEventListener('message', ({ data }) => {
      if (workers.length === 1 && String(data).includes('"begin"')) worker.terminate()
    })
  await using server = await startScriptedSmtp()
  await using flow = await startMailFlow({ zone, settings, smtpPort: server.port })
  const sent = await flow.send({ to: 'bob@receiver.test' })
  expect((await flow.settled(sent)).recipients).toMatchObject([{ status: 'uncertain', attempts: 1 }])
  expect(server.sessions.flatMap(({ messages }) => messages)).toEqual([])
  expectBalanced(flow.service)
})

test('mail that becomes due while no Worker is alive is sent by the replacement', async () => {
  await using server = await startScriptedSmtp()
  await using flow = await startMailFlow({ zone, settings, smtpPort: server.port })
  const before = await flow.send({ to: 'a@receiver.test' })
  expect((await flow.settled(before)).recipients).toMatchObject([{ status: 'sent' }])
  const dead = new Promise((resolve) => workers[0]?.addEventListener('close', resolve))
  crash(workers[0])
  await dead
  const after = await flow.send({ to: 'b@receiver.test' })
  expect((await flow.settled(after)).recipients).toMatchObject([{ status: 'sent', attempts: 1 }])
  expect(workers).toHaveLength(2)
  expectBalanced(flow.service)
})

test('while every Worker dies at its start, mail is deferred, not stuck', async () => {
  onStart = (worker) => crash(worker)
  await using server = await startScriptedSmtp()
  await using flow = await startMailFlow({ zone, settings, smtpPort: server.port })
  const sent = await Promise.all(['a@receiver.test', 'b@other.test'].map((to) => flow.send({ to })))
  for (const one of sent) {
    expect((await flow.settled(one)).recipients).toMatchObject([
      { status: 'queued', attempts: 1, deliveryStartedAt: null, nextAt: expect.any(Number) },
    ])
  }
  expectBalanced(flow.service)
})

test('a message that waits for memory survives the death of its Worker', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  await using server = await startScriptedSmtp({
    body: (_, { messages }) => (messages.length > 0 && workers.length === 1 ? promise.then(() => '250 ok') : '250 ok'),
  })
  await using flow = await startMailFlow({
    zone,
    settings: { ...settings, TASSIS_MEMORY_BUDGET: '16MiB' },
    smtpPort: server.port,
  })
  const content = Buffer.alloc(3 * 1024 * 1024, 'x').toString('base64')
  const large = { attachments: [{ filename: 'x.txt', content_type: 'text/plain', content }] }
  const first = await flow.send({ to: 'a@receiver.test', ...large })
  await eventually(() => server.sessions[0]?.messages.length === 1)
  const second = await flow.send({ to: 'b@other.test', ...large })
  await eventually(() => recipientsOf(flow).every(({ status }) => status === 'processing'))
  crash(workers[0])
  expect((await flow.settled(first)).recipients).toMatchObject([{ status: 'uncertain' }])
  expect((await flow.settled(second)).recipients).toMatchObject([{ status: 'sent', attempts: 1 }])
  resolve()
  expectBalanced(flow.service)
})

test('an unreadable key fails only its own mail', async () => {
  await using server = await startScriptedSmtp()
  await using flow = await startMailFlow({ zone, settings, smtpPort: server.port })
  const { db, keys } = flow.app
  const { uuid } = db.query<{ uuid: Uint8Array }, []>('SELECT uuid FROM domains').get() ?? { uuid: new Uint8Array() }
  const other = await createDomain(flow.app, flow.actor, 'other-sender.test')
  db.run('UPDATE domains SET verified_at = 1')
  db.run('UPDATE domains SET dkim_private_key = ? WHERE uuid = ?', [keys.seal('no key', toDkimKeyContext(uuid)), uuid])
  const bad = await flow.send({ to: 'a@receiver.test' })
  expect((await flow.settled(bad)).recipients).toMatchObject([{ status: 'failed', attempts: 1 }])
  const good = await flow.send({ to: 'b@receiver.test', from: `ada@${other.domain.domain}` })
  expect((await flow.settled(good)).recipients).toMatchObject([{ status: 'sent', attempts: 1 }])
  expect(workers).toHaveLength(1)
  expectBalanced(flow.service)
})
