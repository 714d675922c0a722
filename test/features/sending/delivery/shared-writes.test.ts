import { expect, test } from 'bun:test'
import { addSuppression } from '#features/audience/suppressions/suppressions.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'

/** As many as a site may have before it has answered. */
const ADDRESSES = ['a@receiver.test', 'b@receiver.test']

/**
 * An email to both at a server that holds back a reply to each until `release`, so that the Worker reports them
 * together.
 */
async function startTogether(step: 'data' | 'body', reply: string) {
  const { promise, resolve } = Promise.withResolvers<string>()
  let held = 0
  const server = await startScriptedSmtp({
    [step]: () => {
      held++
      return promise
    },
  })
  const flow = await startMailFlow({
    zone: { 'receiver.test': { A: ['127.0.0.1'] } },
    smtpPort: server.port,
    settings: { TASSIS_WORKERS: '1' },
  })
  const sent = await flow.send({ to: ADDRESSES })
  await eventually(() => held === ADDRESSES.length)
  return {
    server,
    flow,
    sent,
    release: () => resolve(reply),
    async [Symbol.asyncDispose]() {
      await flow[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
    },
  }
}

const statuses = async (flow: MailFlow, sent: Awaited<ReturnType<MailFlow['send']>>) =>
  (await flow.settled(sent)).recipients.map(({ address, status }) => [address, status])

test('when the database refuses one of several outcomes, the others are stored, and that one later', async () => {
  await using together = await startTogether('body', '250 2.0.0 Queued')
  const { flow, sent, server, release } = together
  const { db } = flow.app
  db.run(
    "CREATE TEMP TRIGGER refuse BEFORE UPDATE OF delivered_at ON recipients WHEN new.address = 'b@receiver.test' BEGIN SELECT RAISE(ABORT, 'refused'); END",
  )
  release()
  const delivered = () =>
    db
      .query<{ address: string }, []>('SELECT address FROM recipients WHERE delivered_at IS NOT NULL ORDER BY address')
      .all()
      .map(({ address }) => address)
  await eventually(() => delivered().length > 0)
  expect(delivered()).toEqual(['a@receiver.test'])
  db.run('DROP TRIGGER refuse')
  expect(await statuses(flow, sent)).toEqual(ADDRESSES.map((address) => [address, 'sent']))
  // The retry stores what happened; it sends nothing.
  expect(server.sessions.flatMap(({ messages }) => messages)).toHaveLength(2)
  const seqs = db.query<{ seq: number }, []>('SELECT seq FROM events ORDER BY seq').all()
  expect(seqs.map(({ seq }) => seq)).toEqual(seqs.map((_, index) => index + 1))
  expectBalanced(flow.service)
})

test('of several messages that may begin together, only the suppressed one does not', async () => {
  await using together = await startTogether('data', '354 End with a dot')
  const { flow, sent, server, release } = together
  await addSuppression(flow.app, flow.actor, { address: 'b@receiver.test', reason: 'complaint' })
  release()
  expect(await statuses(flow, sent)).toEqual(
    ADDRESSES.map((address) => [address, address === 'b@receiver.test' ? 'rejected' : 'sent']),
  )
  expect(server.sessions.flatMap(({ messages }) => messages)).toHaveLength(1)
})
