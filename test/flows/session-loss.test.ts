import { describe, expect, test } from 'bun:test'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import type { Zone } from '#test/support/dns-server.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { type ScriptedSmtp, type SmtpScript, startScriptedSmtp } from '#test/support/scripted-smtp.ts'

const zone: Zone = { 'receiver.test': { A: ['127.0.0.1'] } }

const messagesOf = (server: ScriptedSmtp): number =>
  server.sessions.reduce((sum, { messages }) => sum + messages.length, 0)

/** Sends one message alone; waits until the Worker has closed the sessions that it will not reuse. */
async function outcomeOf(flow: MailFlow) {
  const { recipient, events } = await flow.outcome('bob@receiver.test')
  return { recipient, types: events.map(({ type }) => type) }
}

/**
 * Holds back every commit that follows the nth DATA of the first session until that session has ended; otherwise the
 * start of delivery could be stored earlier.
 */
function storeAfterEnd({ app: { commit } }: MailFlow, server: ScriptedSmtp, nthData = 1): void {
  const write = commit.writeFromReserve.bind(commit)
  const isSettled = (): boolean => {
    const [first] = server.sessions
    return !first || first.closed || first.commands.filter((command) => command === 'DATA').length < nthData
  }
  const later: typeof write = async (run) => {
    await eventually(isSettled)
    return write(run)
  }
  Object.defineProperty(commit, 'writeFromReserve', { value: later })
}

// test/flows/misbehaving-receiver.test.ts has the other steps.
test.each(['end', 'reset'] as const)(
  'a session that ends at the 354, before the start is stored (%s), defers',
  async (drop) => {
    await using server = await startScriptedSmtp({ data: { say: '354 Go ahead', drop } })
    await using flow = await startMailFlow({ zone, smtpPort: server.port })
    storeAfterEnd(flow, server)
    const { recipient, types } = await outcomeOf(flow)
    expect(recipient).toMatchObject({ status: 'queued', attempts: 1, deliveryStartedAt: null })
    expect(recipient.nextAt).toBeGreaterThan(flow.app.clock.now())
    expect(types).toEqual(['deferred'])
    expect(messagesOf(server)).toBe(0)
    expectBalanced(flow.service)
  },
)

describe('a reused session', () => {
  /** Long enough for a busy machine to send the second message before the session is closed as idle. */
  const settings = siteLimits({ idle_seconds: 300 })
  const once = (reaction: SmtpScript['mail']): SmtpScript => ({ mail: ['250 2.1.0 ok', reaction as string] })
  test.each([
    ['closes when it is used again', once({ drop: 'end' })],
    ['is reset when it is used again', once({ drop: 'reset' })],
    ['says 421 when it is used again', once({ say: '421 4.4.2 Idle for too long', drop: 'end' })],
    ['accepts the envelope and closes at DATA', { data: ['354 go', { drop: 'end' }] } satisfies SmtpScript],
    [
      'closes at the 354, before the start is stored',
      { data: ['354 go', { say: '354 go', drop: 'end' }] } satisfies SmtpScript,
    ],
  ] as [string, SmtpScript][])(
    'that %s is replaced by a new one to the same host, in the same attempt',
    async (_, script) => {
      await using server = await startScriptedSmtp(script)
      await using flow = await startMailFlow({ zone, smtpPort: server.port, settings })
      storeAfterEnd(flow, server, 2)
      expect((await outcomeOf(flow)).recipient).toMatchObject({ status: 'sent' })
      const { recipient, types } = await outcomeOf(flow)
      expect(recipient).toMatchObject({ status: 'sent', attempts: 1 })
      expect(types).toEqual(['sent', 'delivered'])
      expect(server.sessions.map(({ messages }) => messages.length)).toEqual([1, 1])
      expectBalanced(flow.service)
    },
  )

  test('that closes during the message is uncertain, and nothing is sent again', async () => {
    await using server = await startScriptedSmtp({ body: ['250 2.0.0 Queued', { drop: 'end' }] })
    await using flow = await startMailFlow({ zone, smtpPort: server.port, settings })
    expect((await outcomeOf(flow)).recipient).toMatchObject({ status: 'sent' })
    expect((await outcomeOf(flow)).recipient).toMatchObject({ status: 'uncertain', attempts: 1 })
    expect(server.sessions).toHaveLength(1)
    expectBalanced(flow.service)
  })
})

describe('addresses', () => {
  test('the second is used when the session at the first address of a host is lost', async () => {
    let sessions = 0
    await using server = await startScriptedSmtp({ mail: () => (sessions++ === 0 ? { drop: 'end' } : '250 ok') })
    // The same server at two addresses.
    const zone: Zone = { 'receiver.test': { A: ['127.0.0.1'], AAAA: ['::ffff:127.0.0.1'] } }
    await using flow = await startMailFlow({ zone, smtpPort: server.port, settings: { TASSIS_IPV6: 'true' } })
    expect((await outcomeOf(flow)).recipient).toMatchObject({ status: 'sent', attempts: 1 })
  })

  test.each([['::1'], ['::ffff:127.0.0.1']])(
    'a mail host at the IPv6 address %s is not contacted unless private networks are allowed',
    async (address) => {
      await using flow = await startMailFlow({
        zone: { 'receiver.test': { AAAA: [address] } },
        settings: { TASSIS_ALLOW_PRIVATE_NETWORKS: 'false', TASSIS_IPV6: 'true' },
      })
      const { recipient } = await flow.outcome('bob@receiver.test')
      expect(recipient).toMatchObject({ status: 'queued', attempts: 1 })
      expect(recipient.lastError).toContain('private or reserved')
    },
  )

  test('a mail host named like our own capture server receives its mail itself', async () => {
    await using server = await startScriptedSmtp()
    await using flow = await startMailFlow({
      zone: { 'receiver.test': { MX: [{ preference: 1, exchange: 'capture' }] }, capture: { A: ['127.0.0.1'] } },
      smtpPort: server.port,
    })
    flow.app.db.run('UPDATE domains SET verified_at = NULL')
    expect((await flow.outcome('bob@receiver.test')).recipient).toMatchObject({ status: 'sent' })
    expect(server.sessions).toEqual([])
    flow.app.db.run('UPDATE domains SET verified_at = 1')
    expect((await flow.outcome('bob@receiver.test')).recipient).toMatchObject({ status: 'sent' })
    expect(messagesOf(server)).toBe(1)
  })
})
