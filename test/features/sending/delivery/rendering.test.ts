import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { BROADCAST_STATES } from '#features/sending/broadcasts/states.ts'
import { HELD_BROADCAST_STATES } from '#features/sending/delivery/attempt/claim.ts'
import { RenderQueue } from '#features/sending/delivery/message/render-broadcast.ts'
import { AppError } from '#platform/errors.ts'
import { RENDER_INTERRUPTED, type RenderOutcome, type RenderRequest } from '#platform/template/renderer.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { addContacts, createContacts, newList, readBroadcastEmails } from '#test/support/broadcasts.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { laneStates } from '#test/support/lanes.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { recipientsOf } from './flows.ts'

setDefaultTimeout(120_000)

test('recipients of a broadcast wait while it is paused, being cancelled or failing', () => {
  expect(BROADCAST_STATES.filter((_, code) => HELD_BROADCAST_STATES.has(code))).toEqual([
    'paused',
    'cancelling',
    'failing',
  ])
})

describe('the render queue', () => {
  const lineOf = () => {
    const begun: string[] = []
    const line = new RenderQueue<string>()
    const enter = (accountId: number, count: number) => {
      for (let n = 1; n <= count; n++) {
        const owner = `${accountId}.${n}`
        line.enqueue(owner, accountId, () => begun.push(owner))
      }
    }
    return { line, begun, enter }
  }

  test('begins at most eight jobs of an account and 32 in total at a time; accounts take turns', () => {
    const { line, begun, enter } = lineOf()
    for (let accountId = 1; accountId <= 5; accountId++) enter(accountId, 9)
    expect([begun.length, begun.at(-1)]).toEqual([32, '4.8'])
    for (const owner of ['1.1', '1.2', '2.1', '2.2']) line.leave(owner)
    // Accounts 1 and 2 have capacity for one more job each, and account 5 had none so far; they take turns.
    expect(begun.slice(32)).toEqual(['1.9', '5.1', '2.9', '5.2'])
  })

  test('frees each slot only once, and begins no job that has left the queue', () => {
    const { line, begun, enter } = lineOf()
    enter(1, 10)
    expect(begun).toHaveLength(8)
    for (const owner of ['1.9', '1.1', '1.1', 'nobody']) line.leave(owner)
    expect(begun.slice(8)).toEqual(['1.10'])
    enter(2, 1)
    line.clear()
    line.leave('1.2')
    expect(begun).toHaveLength(10)
  })
})

interface Flow extends AsyncDisposable {
  readonly service: EmailApi
  /** Addresses of the messages whose final dot the receiver got. */
  arrived(): string[]
  /** From now on the receiver does not reply to large messages, until `open`. */
  shut(): void
  open(): void
  /** Starts a broadcast to that many contacts of an account. */
  broadcast(contacts: number, key?: string): Promise<void>
}

const LARGE_BYTES = 100_000
/** Enough replies for full capacity at a site, which starts with less. */
const FIRST = 30

/** Replaces rendering between delivery and the renderer. */
type Rendering = (request: RenderRequest, render: () => Promise<RenderOutcome>) => Promise<RenderOutcome>

/** A service whose mail goes to one receiver, and its replacement for the rendering of broadcasts. */
async function startFlow(
  rendering: Rendering,
  { settings = {}, isManual = false }: { settings?: Readonly<Record<string, string>>; isManual?: boolean } = {},
): Promise<Flow> {
  let gate = Promise.withResolvers<void>()
  gate.resolve()
  const receiver = await startScriptedSmtp({
    body: async (_, { messages }) => {
      if ((messages.at(-1)?.length ?? 0) > LARGE_BYTES) await gate.promise
      return '250 2.0.0 Queued'
    },
  })
  const service = await createEmailApi({
    delivers: true,
    runsTasks: true,
    ...(!isManual && { clock: systemClock }),
    settings: {
      TASSIS_DELIVERY: 'relay',
      TASSIS_RELAY_URL: `smtp://127.0.0.1:${receiver.port}`,
      TASSIS_RELAY_TLS: 'opportunistic',
      ...settings,
    },
  })
  const { renderer } = service.app
  const render = renderer.render.bind(renderer)
  renderer.render = (request) =>
    request.urgency === 'bulk' ? rendering(request, () => render(request)) : render(request)
  return {
    service,
    arrived: () => receiver.sessions.flatMap(({ messages }) => messages.map((raw) => readTo(raw))),
    shut() {
      gate = Promise.withResolvers<void>()
    },
    open: () => gate.resolve(),
    async broadcast(contacts, key) {
      const list = await newList(service, 'News', key)
      await addContacts(service.app, list, createContacts(contacts))
      const request = {
        contact_list_id: list,
        from_address: key === undefined ? 'ada@sender.test' : 'ada@other.test',
        subject: 'News',
        text_body: '{{ contact.email }}',
      }
      const answer = await service.api('POST', '/v1/emails/broadcast', request, key === undefined ? {} : { key })
      if (answer.status !== 202) throw new Error(`refused: ${JSON.stringify(answer.body)}`)
    },
    async [Symbol.asyncDispose]() {
      gate.resolve()
      await service[Symbol.asyncDispose]()
      await receiver[Symbol.asyncDispose]()
    },
  }
}

const readTo = (raw: Buffer): string => /^To: (.*)$/im.exec(raw.toString('latin1'))?.[1]?.trim() ?? ''

const countInFlight = (service: EmailApi): number =>
  recipientsOf(service).filter(({ status }) => status === 'processing').length

const countSent = ({ app }: EmailApi, accountId: number): number =>
  app.db
    .query<{ n: number }, [number]>(
      'SELECT count(*) AS n FROM emails WHERE account_id = ? AND status = 3 AND broadcast_id IS NOT NULL',
    )
    .get(accountId)?.n ?? 0

test('a broadcast that renders slowly leaves another account its share of the same site', async () => {
  const held: (() => void)[] = []
  let slowAccount = 0
  let begun = 0
  await using flow = await startFlow(async ({ accountId }, render) => {
    if (accountId === slowAccount && ++begun > FIRST) await new Promise<void>((resolve) => held.push(resolve))
    return render()
  })
  const { service } = flow
  slowAccount = service.actor.accountId
  const other = await service.newAccount()
  await service.addDomain(other, 'other.test')
  await flow.broadcast(FIRST + 60)
  // The limit of bulk mail for ten connections; eight of these are rendered at a time.
  await eventually(() => countInFlight(service) === 16 && held.length === 8)
  await flow.broadcast(60, await service.newKey([], other))
  await eventually(() => laneStates(service).some(({ lane }) => lane.startsWith(`bulk:${other.accountId}:`)))
  held.shift()?.()
  await eventually(() => countSent(service, other.accountId) === 60)
  await eventually(() => countSent(service, slowAccount) === FIRST + 1)
  slowAccount = 0
  await eventually(() => {
    for (const release of held.splice(0)) release()
    return countSent(service, service.actor.accountId) === FIRST + 60
  })
  expectBalanced(service)
})

test('sub-accounts of one parent share the rendering of one account', async () => {
  const held: (() => void)[] = []
  let begun = 0
  await using flow = await startFlow(async (_, render) => {
    if (++begun > FIRST) await new Promise<void>((resolve) => held.push(resolve))
    return render()
  })
  const { service } = flow
  const sub = await service.newAccount()
  service.app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [service.actor.accountId, sub.accountId])
  await service.addDomain(sub, 'other.test')
  await flow.broadcast(FIRST + 6)
  await eventually(() => held.length === 6)
  await flow.broadcast(6, await service.newKey([], sub))
  await eventually(() => countInFlight(service) === 12 && held.length >= 8)
  expect(held).toHaveLength(8)
  await eventually(() => {
    for (const release of held.splice(0)) release()
    return countSent(service, sub.accountId) === 6 && countSent(service, service.actor.accountId) === FIRST + 6
  })
  expectBalanced(service)
})

test('no more large bodies are rendered than may wait for memory', async () => {
  let rendered = 0
  const text = 'A line of a long letter.\r\n'.repeat(40_000)
  await using flow = await startFlow(
    async () => {
      const isLarge = ++rendered > FIRST
      return { kind: 'rendered', parts: { subject: 'News', text: isLarge ? text : 'small' } }
    },
    { settings: { TASSIS_MEMORY_BUDGET: '16 MiB', ...siteLimits({ connections: 30 }) } },
  )
  const { service } = flow
  flow.shut()
  await flow.broadcast(FIRST + 20)
  // Two use the account's share of the memory; eight are rendered and wait for memory.
  const countOwnSent = () => countSent(service, service.actor.accountId)
  await eventually(() => countOwnSent() === FIRST && countInFlight(service) === 20 && rendered >= FIRST + 10)
  expect(rendered).toBe(FIRST + 10)
  flow.open()
  await eventually(() => countOwnSent() === FIRST + 20, 60_000)
  expect([rendered, flow.arrived().length, service.app.memory.inUseBytes]).toEqual([FIRST + 20, FIRST + 20, 0])
  expectBalanced(service)
})

test('an email that crashes the renderer is tried three times; then its template fails', async () => {
  const attempts = new Map<string, number>()
  await using flow = await startFlow(
    (request, render) => {
      const email = /contact-\d+/.exec(request.dataJson)?.[0] ?? ''
      const attempt = (attempts.get(email) ?? 0) + 1
      attempts.set(email, attempt)
      const isInterrupted = email === 'contact-2' ? attempt <= 2 : email === 'contact-3'
      return isInterrupted ? Promise.reject(new AppError(503, RENDER_INTERRUPTED, 'It takes too much.')) : render()
    },
    { isManual: true },
  )
  const { service } = flow
  await flow.broadcast(3)
  const statuses = () => readBroadcastEmails(service.app).map(({ status }) => status)
  for (const tries of [1, 2, 3]) {
    await eventually(() => attempts.get('contact-3') === tries && statuses().every((status) => status !== 'processing'))
    service.clock.advance(seconds(30))
  }
  await eventually(() => statuses().every((status) => status === 'sent' || status === 'failed'))
  expect([statuses(), Object.fromEntries(attempts)]).toEqual([
    ['sent', 'sent', 'failed'],
    { 'contact-1': 1, 'contact-2': 3, 'contact-3': 3 },
  ])
  expect(at((await service.api('GET', '/v1/dead-letters')).body, 'data')).toMatchObject([
    { failure_reason: 'failed', last_error: expect.stringContaining('It takes too much.') },
  ])
  expectBalanced(service)
})
