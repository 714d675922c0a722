/**
 * @module Control of a broadcast while its mail waits, mail that returns unattempted after a cancellation, and
 * decisions at its start. The counts stay consistent throughout.
 */
import { describe, expect, test } from 'bun:test'
import { findBroadcastById } from '#features/sending/broadcasts/states.ts'
import { deferRecipient, releaseRecipient } from '#features/sending/queue/attempt-transitions.ts'
import { claimDue } from '#features/sending/queue/queue.ts'
import { systemClock } from '#platform/time/clock.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { createTestApp, eventually, type TestApp } from '#test/support/app.ts'
import {
  addContacts,
  countByStatus,
  createContacts,
  getOperation,
  newList,
  type OperationState,
  readBroadcastEmails,
  type TestContact,
  waitForOperation,
} from '#test/support/broadcasts.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createTestDisk } from '#test/support/disk.ts'
import { createEmailApi, type EmailApi, expectError, NOW, UNVERIFIED, VERIFIED } from '#test/support/email-api.ts'
import { createFolder } from '#test/support/folder.ts'
import { type ScriptedSmtp, startScriptedSmtp } from '#test/support/scripted-smtp.ts'

type Json = Record<string, unknown>

const NEWS = { from_address: `ada@${VERIFIED}`, subject: 'News', text_body: 'Hello.' }
const PAUSED = 'Paused; emails not attempted before are not sent until it is resumed.'
const CANCELLED = 'Cancelled; emails not attempted before are not sent.'
const ACCOUNT_PAUSED =
  'The account is paused: The operator of the service paused it. Contact the operator of the service.'

let created = 0
async function createList(service: EmailApi, contacts: readonly TestContact[]): Promise<string> {
  const id = await newList(service, `List ${++created}`)
  await addContacts(service.app, id, contacts)
  return id
}
const post = ({ api }: EmailApi, listId: string, request: Json = {}): Promise<ApiResponse> =>
  api('POST', '/v1/emails/broadcast', { contact_list_id: listId, ...NEWS, ...request })
/** Id of the operation of a broadcast to that many contacts. */
async function startBroadcast(service: EmailApi, contacts: number, request: Json = {}): Promise<string> {
  const answer = await post(service, await createList(service, createContacts(contacts)), request)
  if (answer.status !== 202) throw new Error(`refused: ${JSON.stringify(answer.body)}`)
  return String(at(answer.body, 'data', 'operation_id'))
}
/** The domain of the sender was verified and has lost its records for too long. */
const loseVerification = ({ app }: EmailApi) =>
  app.db.run('UPDATE domains SET verified_at = NULL, records_lost_at = 1 WHERE domain = ?', [VERIFIED])
const control = ({ api }: EmailApi, id: string, verb: 'pause' | 'resume' | 'cancel') =>
  api('POST', `/v1/operations/${id}/${verb}`)
const readAfterControl = async (service: EmailApi, id: string, verb: 'pause' | 'resume' | 'cancel') => {
  const answer = await control(service, id, verb)
  if (answer.status !== 200) throw new Error(`not done: ${JSON.stringify(answer.body)}`)
  return at(answer.body, 'data') as OperationState
}
const inAnHour = () => new Date(NOW + hours(1)).toISOString()
/** The fields of an operation that a control changes. */
const summarise = ({ status, metadata, error_summary }: OperationState) => [
  status,
  metadata.state,
  metadata.handed_over,
  metadata.left_out,
  error_summary?.message ?? null,
]

const relaySettings = ({ port }: ScriptedSmtp) => ({
  TASSIS_DELIVERY: 'relay',
  TASSIS_RELAY_URL: `smtp://127.0.0.1:${port}`,
  TASSIS_RELAY_TLS: 'opportunistic',
})
const countMessages = (receiver: ScriptedSmtp): number =>
  receiver.sessions.reduce((sum, { messages }) => sum + messages.length, 0)

/** A receiver that replies to no RCPT until it ends. */
async function startHangingReceiver() {
  const gate = Promise.withResolvers<void>()
  const receiver = await startScriptedSmtp({ rcpt: () => gate.promise.then(() => '250 2.0.0 OK') })
  return {
    receiver,
    async [Symbol.asyncDispose]() {
      gate.resolve()
      await receiver[Symbol.asyncDispose]()
    },
  }
}

describe('a broadcast that is enqueued completely but not attempted', () => {
  // Proves: broadcast-5
  test('is still being sent: it can be paused, resumed and cancelled, and its quota is refunded once', async () => {
    await using service = await createEmailApi({ runsTasks: true })
    const id = await startBroadcast(service, 5)
    await eventually(() => readBroadcastEmails(service.app).length === 5)
    expect(summarise(await getOperation(service, id))).toEqual(['processing', 'sending', 5, 0, null])
    expect(summarise(await readAfterControl(service, id, 'pause'))).toEqual(['processing', 'paused', 5, 0, PAUSED])
    expect(summarise(await readAfterControl(service, id, 'resume'))).toEqual(['processing', 'sending', 5, 0, null])
    expect(service.used()).toBe(5)
    await readAfterControl(service, id, 'cancel')
    const over = await waitForOperation(service, id, 'cancelled')
    expect(summarise(over)).toEqual(['failed', 'cancelled', 0, 5, CANCELLED])
    expect([countByStatus(over), service.used()]).toEqual([{ cancelled: 5 }, 0])
    expectBalanced(service)
    // A repetition changes nothing.
    expect(summarise(await readAfterControl(service, id, 'cancel'))).toEqual(['failed', 'cancelled', 0, 5, CANCELLED])
    expect(service.used()).toBe(0)
  })
})

describe('mail that returns unattempted after the cancellation', () => {
  /** State, counts and emails of the only broadcast, of a service without its API. */
  const look = ({ app }: TestApp) => {
    const { state, handedOver, leftOut } = findBroadcastById(app.db, 1) ?? {}
    const statuses = new Set(readBroadcastEmails(app).map(({ status }) => status))
    return { state, handedOver, leftOut, statuses: [...statuses] }
  }

  // Proves: broadcast-5
  test('because of a restart is not sent, and is withdrawn with its quota', async () => {
    using folder = createFolder()
    const dataDir = folder.path
    {
      // Before any DATA: mail in flight was not sent.
      await using kept = await startHangingReceiver()
      await using service = await createEmailApi({
        clock: systemClock,
        runsTasks: true,
        delivers: true,
        dataDir,
        settings: relaySettings(kept.receiver),
      })
      const id = await startBroadcast(service, 30)
      await eventually(() => kept.receiver.sessions.some(({ commands }) => commands.some((c) => c.startsWith('RCPT'))))
      await eventually(() => readBroadcastEmails(service.app).length === 30)
      await readAfterControl(service, id, 'cancel')
      const during = await eventually(async () => {
        const now = await getOperation(service, id)
        return countByStatus(now)['queued'] === undefined && now
      })
      expect([during.metadata.state, Number(countByStatus(during)['processing']) > 0]).toEqual(['cancelling', true])
    }
    await using receiver = await startScriptedSmtp()
    await using again = await createTestApp({
      dataDir,
      runsTasks: true,
      delivers: true,
      settings: relaySettings(receiver),
    })
    await eventually(() => findBroadcastById(again.app.db, 1)?.state === 7)
    expect(look(again)).toEqual({ state: 7, handedOver: 0, leftOut: 30, statuses: ['cancelled'] })
    expect([countMessages(receiver), receiver.sessions.length]).toEqual([0, 0])
    const used = again.app.db.query<{ n: number }, []>('SELECT SUM(recipients) AS n FROM usage').get()?.n
    expect(used).toBe(0)
    expectBalanced(again)
  })

  test('is withdrawn even between more deferred mail than one batch examines', async () => {
    await using service = await createEmailApi({ runsTasks: true })
    const { app, clock } = service
    const id = await startBroadcast(service, 321)
    await eventually(() => readBroadcastEmails(app).length === 321)
    const lane = app.db.query<{ lane: string }, []>('SELECT DISTINCT lane FROM recipients').get()?.lane ?? ''
    const now = clock.now()
    const returning = await app.commit.write((tx) => {
      const claimed = claimDue(tx, lane, { now, eventTime: now, limit: 320, retryAt: () => now + hours(1) })
      const kept = claimed.filter((_, index) => index >= 310 && index < 315)
      for (const recipient of claimed.filter((one) => !kept.includes(one)))
        deferRecipient(tx, { ...recipient, nextAt: now + hours(1), now, reason: 'later' }, { lastError: 'later' })
      return kept
    })
    expect(returning).toHaveLength(5)
    await readAfterControl(service, id, 'cancel')
    // The last is withdrawn: the scan is complete and waits for attempts in flight.
    await eventually(() => readBroadcastEmails(app).at(-1)?.status === 'cancelled')
    clock.advance(seconds(1))
    expect((await getOperation(service, id)).metadata.state).toBe('cancelling')
    await app.commit.write((tx) => {
      for (const { recipientId, emailId } of returning) releaseRecipient(tx, recipientId, emailId, now, now)
    })
    const over = await eventually(async () => {
      clock.advance(seconds(1))
      const now = await getOperation(service, id)
      return now.metadata.state === 'cancelled' && now
    })
    expect([summarise(over), countByStatus(over)]).toEqual([
      ['failed', 'cancelled', 315, 6, CANCELLED],
      { queued: 315, cancelled: 6 },
    ])
    expect(service.used()).toBe(315)
    expectBalanced(service)
  })
})

describe('the mail of a scheduled broadcast', () => {
  /** Starts a broadcast from a domain, verifies or unverifies the domain before its time, and returns the result. */
  async function withChange(domain: string, verifiedAt: number | null) {
    await using receiver = await startScriptedSmtp()
    await using service = await createEmailApi({ runsTasks: true, delivers: true, settings: relaySettings(receiver) })
    const id = await startBroadcast(service, 3, { from_address: `ada@${domain}`, send_at: inAnHour() })
    const before = service.used()
    service.app.db.run('UPDATE domains SET verified_at = ? WHERE domain = ?', [verifiedAt, domain])
    service.clock.advance(hours(1))
    const over = await waitForOperation(service, id, 'done')
    await eventually(() => readBroadcastEmails(service.app).every(({ status }) => status === 'sent'))
    const rows = at((await service.api('GET', '/v1/emails')).body, 'data') as { sandbox: boolean }[]
    await eventually(() => service.delivery?.scheduler.inFlight === 0)
    expectBalanced(service)
    return {
      sandbox: at(over.metadata, 'sandbox'),
      emails: rows.map(({ sandbox }) => sandbox),
      quota: [before, service.used()],
      arrived: countMessages(receiver),
    }
  }

  test('stays captured and outside the quota when its domain is verified after the request', async () => {
    expect(await withChange(UNVERIFIED, NOW)).toEqual({
      sandbox: true,
      emails: [true, true, true],
      quota: [0, 0],
      arrived: 0,
    })
  })

  test('stays real and in the quota when its domain loses its verification after the request', async () => {
    expect(await withChange(VERIFIED, null)).toEqual({
      sandbox: false,
      emails: [false, false, false],
      quota: [3, 3],
      arrived: 3,
    })
  })
})

describe('the request', () => {
  test('for the 201st open broadcast is a 409; another may start when one has ended', async () => {
    await using service = await createEmailApi()
    const id = await startBroadcast(service, 1, { send_at: inAnHour() })
    const columns = service.app.db
      .query<{ name: string }, []>(
        "SELECT name FROM pragma_table_info('broadcasts') WHERE name NOT IN ('id', 'operation_id')",
      )
      .all()
      .map(({ name }) => name)
      .join()
    service.app.db.run(
      `INSERT INTO broadcasts (${columns}) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 199) SELECT ${columns} FROM broadcasts, n`,
    )
    const list = await createList(service, createContacts(1))
    const before = service.stored()
    expectError(await post(service, list), 409, 'too_many_broadcasts')
    expect({ ...service.stored(), contentParts: 0 }).toEqual({ ...before, contentParts: 0 })
    // Those of another account do not count.
    const theirs = await service.newAccount()
    await service.addDomain(theirs, 'theirs.test')
    const key = await service.newKey([], theirs)
    const listId = await newList(service, 'Theirs', key)
    const request = { contact_list_id: listId, ...NEWS, from_address: 'ada@theirs.test' }
    expect((await service.api('POST', '/v1/emails/broadcast', request, { key })).status).toBe(202)
    service.app.db.run(
      'UPDATE broadcasts SET state = 6 WHERE operation_id = (SELECT MIN(operation_id) FROM broadcasts)',
    )
    expect((await post(service, list)).status).toBe(202)
    expect((await getOperation(service, id)).status).toBe('pending')
  })

  test('from an unverified domain reports that the broadcast is only captured', async () => {
    await using service = await createEmailApi()
    const answer = await post(service, await createList(service, createContacts(2)), {
      from_address: `ada@${UNVERIFIED}`,
    })
    expect(at(answer.body, 'data')).toMatchObject({
      total_recipients: 2,
      message: `It is being sent to 2 contacts. It is only captured, because ${UNVERIFIED} is not verified.`,
    })
    const { metadata } = await getOperation(service, String(at(answer.body, 'data', 'operation_id')))
    expect(at(metadata, 'sandbox')).toBe(true)
  })
})

// Proves: send-8
test('an accepted broadcast is sent though its domain lost its records since then, and is not captured as sandbox', async () => {
  await using service = await createEmailApi({
    runsTasks: true,
    delivers: true,
    settings: { TASSIS_DELIVERY: 'capture' },
  })
  const id = await startBroadcast(service, 3, { send_at: inAnHour() })
  loseVerification(service)
  service.clock.advance(hours(1))
  await eventually(async () => {
    service.clock.advance(seconds(1))
    return (await getOperation(service, id)).status === 'completed'
  })
  const emails = service.app.db.query<{ sandbox: number }, []>('SELECT sandbox FROM emails').all()
  expect(emails).toEqual([{ sandbox: 0 }, { sandbox: 0 }, { sandbox: 0 }])
  expectError(await post(service, await createList(service, createContacts(1))), 422, 'domain_not_verified', 'from')
})

test.each([
  [1, '1 email failed; GET /v1/emails with this operation_id and status=failed lists them with their reasons.'],
  [2, '2 emails failed; GET /v1/emails with this operation_id and status=failed lists them with their reasons.'],
])('the operation of a broadcast with %d failures reports them in its error_summary', async (nameless, summary) => {
  await using service = await createEmailApi({
    runsTasks: true,
    delivers: true,
    settings: { TASSIS_DELIVERY: 'capture' },
  })
  const contacts = createContacts(4).map(({ email }, index) =>
    index < nameless ? { email } : { email, metadata: { name: 'A' } },
  )
  const listId = await createList(service, contacts)
  const answer = await post(service, listId, { text_body: '{{ contact.name }}' })
  const id = String(at(answer.body, 'data', 'operation_id'))
  await waitForOperation(service, id, 'done')
  await eventually(() =>
    readBroadcastEmails(service.app).every(({ status }) => status === 'sent' || status === 'failed'),
  )
  const over = await getOperation(service, id)
  expect([over.status, over.completed_items, countByStatus(over), over.error_summary?.message ?? null]).toEqual([
    'completed',
    4,
    { sent: 4 - nameless, failed: nameless },
    summary,
  ])
})

describe('a delay reason', () => {
  const pauseAccount = ({ app }: EmailApi, pausedAt: number | null) =>
    app.db.run('UPDATE accounts SET paused_at = ?', [pausedAt])
  const noted = (service: EmailApi, id: string) =>
    eventually(async () => {
      const now = await getOperation(service, id)
      return now.error_summary?.message === ACCOUNT_PAUSED && now
    })

  test('is cleared when the broadcast continues, while it is still being sent', async () => {
    await using service = await createEmailApi({ runsTasks: true })
    const id = await startBroadcast(service, 2, { send_at: inAnHour() })
    pauseAccount(service, NOW)
    service.clock.advance(hours(1))
    expect(summarise(await noted(service, id))).toEqual(['processing', 'sending', 0, 0, ACCOUNT_PAUSED])
    pauseAccount(service, null)
    await eventually(() => {
      // In steps, because the reason is stored before the next look is scheduled.
      service.clock.advance(minutes(1))
      return readBroadcastEmails(service.app).length === 2
    })
    expect(summarise(await getOperation(service, id))).toEqual(['processing', 'sending', 2, 0, null])
  })

  test.each([
    ['pause', PAUSED],
    ['cancel', CANCELLED],
  ] as const)('that comes after a %s does not overwrite its sentence', async (verb, sentence) => {
    // The disk becomes full only after the broadcast was paused or cancelled, in the middle of a step.
    let asked = Promise.withResolvers<void>()
    let answer = Promise.resolve(false)
    const isLow = () => {
      asked.resolve()
      return answer
    }
    await using service = await createEmailApi({ runsTasks: true, disk: createTestDisk(isLow) })
    const id = await startBroadcast(service, 2, { send_at: inAnHour() })
    const full = Promise.withResolvers<boolean>()
    asked = Promise.withResolvers<void>()
    answer = full.promise
    service.clock.advance(hours(1))
    await asked.promise
    await readAfterControl(service, id, verb)
    full.resolve(true)
    // The step has ended when the enqueuer reaches a broadcast that started after it.
    answer = Promise.resolve(false)
    await startBroadcast(service, 1)
    await eventually(() => readBroadcastEmails(service.app).length === 1)
    expect((await getOperation(service, id)).error_summary?.message).toBe(sentence)
  })
})
