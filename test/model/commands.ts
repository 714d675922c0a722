/**
 * @module The commands of the model test: what senders, operators, receivers, the clock and the machine do to a service,
 * as data that fast-check generates and shrinks.
 */
import fc from 'fast-check'
import { addSuppression } from '#features/audience/suppressions/suppressions.ts'
import { pauseAccount, resumeAccount } from '#features/reporting/abuse/pause.ts'
import { deleteDeadLetter, listDeadLetters, retryDeadLetter } from '#features/sending/dead-letters/dead-letters.ts'
import {
  bounceSelected,
  dropSelected,
  releaseSelected,
  retrySelected,
} from '#features/sending/delivery/control/queue-control.ts'
import { cancelEmail, rescheduleEmail } from '#features/sending/emails/scheduled.ts'
import { addRule } from '#features/sending/queue/queue-rules.ts'
import { AppError } from '#platform/errors.ts'
import { days, hours, minutes, seconds } from '#platform/units.ts'
import { type Answer, accepted, refused } from './pool.ts'
import type { ModelWorld } from './world.ts'

/** Recipient domains: two of one provider, one of a provider with a rate, two without an entry. */
export const DOMAINS = ['one.test', 'two.test', 'slow.test', 'other.test', 'last.test'] as const

const failure = { kind: 'reset', message: 'The connection was reset' } as const

/** What the receivers of a domain may do, by name. */
export const BEHAVIOURS = {
  polite: () => accepted(),
  slowly: () => accepted(seconds(20)),
  greylisting: () => refused('451 4.7.1 Greylisted, please try again later'),
  mailboxFull: () => refused('452 4.2.2 Mailbox full'),
  unknownUser: () => refused('550 5.1.1 User unknown'),
  unknownUserAtDot: () => refused('550 5.1.1 User unknown', 'body'),
  tooLarge: () => refused('552 5.3.4 Message too big', 'mail'),
  spam: () => refused('554 5.7.1 Message rejected as spam', 'body'),
  rateLimit: () =>
    refused('451 4.7.650 The mail server has been temporarily rate limited due to IP reputation', 'mail'),
  tooManyConnections: () => refused('421 4.7.0 Try again later', 'mail'),
  namedWait: () => refused('451 4.7.1 Greylisted, see you in 300 seconds'),
  block: () => refused('554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org', 'mail'),
  temporaryAtDot: () => refused('451 4.3.0 Try again later', 'body'),
  unreachable: () => ({
    kind: 'before',
    result: { kind: 'unreachable', phase: 'connect', failure, tlsDemanded: false },
  }),
  dropBefore: () => ({ kind: 'before', result: { kind: 'lost', phase: 'data', failure } }),
  dropInMessage: () => ({ kind: 'after', isReceived: false, result: { kind: 'uncertain', failure } }),
  dropAfterDot: () => ({ kind: 'after', isReceived: true, result: { kind: 'uncertain', failure } }),
  silentBefore: () => ({ kind: 'silent', step: 'before' }),
  silentAfter: () => ({ kind: 'silent', step: 'after' }),
  contentTrouble: () => ({ kind: 'before', result: { kind: 'postponed', detail: 'EMFILE' } }),
  broken: () => ({ kind: 'before', result: { kind: 'broken', message: 'cannot compose', detail: 'cannot compose' } }),
} satisfies Record<string, () => Answer>
export type Behaviour = keyof typeof BEHAVIOURS

export type Command =
  | {
      readonly do: 'accept'
      readonly domain: number
      readonly count: number
      readonly life: 'normal' | 'short' | 'stream'
    }
  | { readonly do: 'schedule'; readonly domain: number; readonly inMs: number }
  | { readonly do: 'cancel' | 'resendUncertain' | 'deleteLetter' | 'suppress'; readonly pick: number }
  | { readonly do: 'reschedule'; readonly pick: number; readonly inMs: number }
  | { readonly do: 'hold' | 'release' | 'retry' | 'bounce' | 'drop'; readonly domain: number }
  | { readonly do: 'holdEmail' | 'releaseEmail'; readonly pick: number }
  | { readonly do: 'behave'; readonly domain: number; readonly behaviour: Behaviour }
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'ticks'; readonly count: number }
  | { readonly do: 'jump'; readonly ms: number }
  | {
      readonly do: 'crash' | 'restart' | 'pause' | 'resume' | 'refuseWrites' | 'allowWrites' | 'dnsFails' | 'dnsAnswers'
    }
  | { readonly do: 'killWorker'; readonly worker: number }

/** Records print without their prototype. */
const record = <T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> =>
  fc.record<T>(model, { noNullPrototype: true }) as fc.Arbitrary<T>
/** Half of all commands are about the first domain, so that they meet. */
const domain = fc.oneof(fc.constant(0), fc.nat(DOMAINS.length - 1))
const pick = fc.nat(1000)

export const commands: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 8,
    arbitrary: record({
      do: fc.constant('accept' as const),
      domain,
      count: fc.integer({ min: 1, max: 5 }),
      life: fc.constantFrom('normal' as const, 'normal' as const, 'short' as const, 'stream' as const),
    }),
  },
  {
    weight: 6,
    arbitrary: record({
      do: fc.constant('behave' as const),
      domain,
      behaviour: fc.oneof(
        fc.constantFrom(...(Object.keys(BEHAVIOURS) as Behaviour[])),
        fc.constantFrom<Behaviour>('polite', 'dropAfterDot', 'silentAfter', 'rateLimit', 'temporaryAtDot'),
      ),
    }),
  },
  {
    weight: 7,
    arbitrary: record({
      do: fc.constant('pass' as const),
      ms: fc.constantFrom(seconds(1), seconds(35), minutes(2), minutes(11), hours(3), days(1)),
    }),
  },
  { weight: 4, arbitrary: record({ do: fc.constant('ticks' as const), count: fc.integer({ min: 1, max: 30 }) }) },
  {
    weight: 2,
    arbitrary: record({
      do: fc.constant('schedule' as const),
      domain,
      inMs: fc.constantFrom(minutes(5), hours(2), days(2)),
    }),
  },
  {
    weight: 5,
    arbitrary: record({
      do: fc.constantFrom('cancel' as const, 'resendUncertain' as const, 'deleteLetter' as const, 'suppress' as const),
      pick,
    }),
  },
  {
    weight: 1,
    arbitrary: record({ do: fc.constant('reschedule' as const), pick, inMs: fc.constantFrom(seconds(0), hours(1)) }),
  },
  {
    weight: 5,
    arbitrary: record({
      do: fc.constantFrom(
        'hold' as const,
        'release' as const,
        'release' as const,
        'retry' as const,
        'retry' as const,
        'bounce' as const,
        'drop' as const,
      ),
      domain,
    }),
  },
  { weight: 2, arbitrary: record({ do: fc.constantFrom('holdEmail' as const, 'releaseEmail' as const), pick }) },
  {
    weight: 4,
    arbitrary: record({
      do: fc.constantFrom(
        'crash' as const,
        'crash' as const,
        'restart' as const,
        'pause' as const,
        'resume' as const,
        'refuseWrites' as const,
        'allowWrites' as const,
        'allowWrites' as const,
        'dnsFails' as const,
        'dnsAnswers' as const,
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: record({
      do: fc.constant('jump' as const),
      ms: fc.constantFrom(hours(5), -hours(5), days(1), -days(1), days(30), -days(30)),
    }),
  },
  { weight: 2, arbitrary: record({ do: fc.constant('killWorker' as const), worker: fc.nat(1) }) },
)

/** Does one command. What the service or its database refuses changes nothing. */
export async function run(world: ModelWorld, command: Command): Promise<void> {
  try {
    await perform(world, command)
  } catch (error) {
    const isRefused = world.isRefusing && error instanceof Error && error.message === 'refused'
    if (!(error instanceof AppError) && !isRefused) throw error
  }
}

async function perform(world: ModelWorld, command: Command): Promise<void> {
  switch (command.do) {
    case 'accept':
      return world.accept(DOMAINS[command.domain] ?? '', command)
    case 'schedule':
      return world.accept(DOMAINS[command.domain] ?? '', { count: 1, life: 'normal', inMs: command.inMs })
    case 'behave':
      return world.behave(DOMAINS[command.domain] ?? '', command.behaviour)
    case 'pass':
      // A longer time passes in longer steps, since the timers of a day are thousands.
      return world.service.pass(command.ms, Math.max(1000, command.ms / 40))
    case 'ticks':
      return world.service.ticks(command.count)
    case 'jump':
      world.service.clock.jumpTo(world.service.clock.now() + command.ms)
      // The service reads its clock, and so sees a clock that was set back.
      world.service.app.clock.now()
      return
    case 'crash':
      return world.replace(await world.service.crash())
    case 'restart':
      world.allowWrites()
      return world.replace(await world.service.restart())
    case 'killWorker':
      return world.service.pool.kill(command.worker)
    case 'refuseWrites':
      return world.refuseWrites()
    case 'allowWrites':
      return world.allowWrites()
    case 'dnsFails':
    case 'dnsAnswers':
      world.isDnsUp = command.do === 'dnsAnswers'
      return
    case 'pause':
    case 'resume':
      return changeAccount(world, command.do)
    case 'hold':
    case 'release':
    case 'retry':
    case 'bounce':
    case 'drop':
      return operate(world, command.do, { domain: DOMAINS[command.domain] ?? '' })
    case 'holdEmail':
    case 'releaseEmail': {
      const email = pickFrom(world.emails, command.pick)
      if (email) await operate(world, command.do === 'holdEmail' ? 'hold' : 'release', { emailId: world.rowId(email) })
      return
    }
    default:
      return changeOne(world, command)
  }
}

const changeAccount = ({ service: { app }, actor }: ModelWorld, what: 'pause' | 'resume'): Promise<void> =>
  app.commit.write((tx) => {
    if (what === 'pause') pauseAccount(app, tx, actor, { source: 'admin', reason: 'Paused by the test.' })
    else resumeAccount(app, tx, actor)
  })

/** What an operator does with the queue. */
async function operate(
  { service: { app } }: ModelWorld,
  what: 'hold' | 'release' | 'retry' | 'bounce' | 'drop',
  selector: { readonly domain?: string; readonly emailId?: number },
): Promise<void> {
  const full = { accountId: undefined, domain: undefined, emailId: undefined, ...selector }
  if (what === 'hold')
    await app.commit.write((tx) =>
      addRule(tx, { kind: 'hold', selector: full, reason: 'test', createdBy: 'test', createdAt: app.clock.now() }),
    )
  else if (what === 'release') await releaseSelected(app, full, 'hold', () => undefined)
  else if (what === 'retry') await retrySelected(app, full)
  else if (what === 'bounce') await bounceSelected(app, full, 'test')
  else await dropSelected(app, full)
}

/** What a sender does with one email, address or dead letter. */
async function changeOne(world: ModelWorld, command: Extract<Command, { readonly pick: number }>): Promise<void> {
  const { actor } = world
  const { app } = world.service
  const email = pickFrom(world.emails, command.pick)
  if (command.do === 'cancel' && email) await cancelEmail(app, actor, email)
  if (command.do === 'reschedule' && email)
    await rescheduleEmail(app, actor, email, { send_at: new Date(app.clock.now() + command.inMs).toISOString() })
  if (command.do === 'suppress') {
    const address = pickFrom([...world.addresses], command.pick)
    if (address !== undefined) await addSuppression(app, actor, { address })
  }
  const letter = pickFrom(listDeadLetters(app.db, actor.accountId, 50).letters, command.pick)
  if (command.do === 'deleteLetter' && letter) await deleteDeadLetter(app, actor, String(letter.id))
  if (command.do === 'resendUncertain' && letter) {
    await retryDeadLetter(app, actor, String(letter.id))
    if (letter.reason === 'uncertain') world.allowAnother(letter.to)
  }
}

const pickFrom = <T>(all: readonly T[], pick: number): T | undefined => all[pick % Math.max(all.length, 1)]
