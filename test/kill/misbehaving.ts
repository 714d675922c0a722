/**
 * @module The kill test with the misbehaving receiver: repeatedly kills a real service with `kill -9` while its receiver
 * greylists, rejects, stalls, resets, and closes the connection before, inside and after the message. After each
 * restart every accepted email is stored, none was received twice, `sent` means received, and nothing is stuck. See
 * `scripts/kill-test --help`.
 */
import type { Database } from 'bun:sqlite'
import type { React, Reaction, Step } from '#features/sending/simulator/reaction.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { startMisbehaving } from '#test/support/misbehaving.ts'
import { RECEIVER_DOMAIN, type Sent, startLoad } from './load.ts'
import { KillRun, waitUntil } from './run.ts'
import { prepareDataDirectory } from './service.ts'
import { findImbalances, readStoredMail } from './stored-mail.ts'

/** Attempts that were interrupted are settled, and new ones have ended, within this time after a restart. */
const QUIET_WITHIN_MS = 60_000
/** Part of the steps at which the receiver misbehaves. */
const MISBEHAVED_FRACTION = 0.12

/** What happens at each step. None is about our address, so the provider is never suspended and mail flows. */
const MISDEEDS: Partial<Record<Step, readonly Reaction[]>> = {
  // A lost greeting would make the site back off.
  ehlo: [{ delayMs: 300 }],
  mail: ['451 4.3.0 Try again later', { end: 'reset' }, { reply: 'garbage\r\n' }],
  rcpt: [
    '451 4.7.1 Greylisted, please try again later',
    '452 4.2.2 Mailbox full',
    '550 5.1.1 User unknown',
    { end: 'close' },
  ],
  data: ['451 4.3.0 Try again later', { end: 'close' }, { delayMs: 500 }],
  body: [{ end: 'close' }, { end: 'reset' }],
  dot: [
    '451 4.3.0 Try again later',
    '554 5.7.1 Message rejected as spam',
    { end: 'close' },
    { end: 'reset' },
    { delayMs: 400 },
  ],
}

const run = new KillRun()
const { rounds, random, violations } = run
let isPolite = false
const misdeeds = new Map<string, number>()
/** Recipients whose connection was lost after the message began. */
const cut = new Set<string>()
/** Recipients with a message in progress; read at a kill. */
const inMessage = new Set<string>()

const react: React = ({ step, rcptTo }) => {
  if (step === 'data') inMessage.add(rcptTo)
  const choices = MISDEEDS[step]
  if (isPolite || !choices || !random.chance(MISBEHAVED_FRACTION)) return undefined
  const reaction = choices[random.between(0, choices.length - 1)]
  const what = `${step}: ${typeof reaction === 'string' ? reaction.slice(0, 9) : Object.keys(reaction ?? {}).join()}`
  misdeeds.set(what, (misdeeds.get(what) ?? 0) + 1)
  if (typeof reaction === 'object' && reaction.end && (step === 'body' || step === 'dot')) cut.add(rcptTo)
  return reaction
}
const receiver = await startMisbehaving({ react })
const dns = await startDnsServer({
  [RECEIVER_DOMAIN]: { MX: [{ preference: 10, exchange: 'mx1.test' }] },
  'mx1.test': { A: ['127.0.0.1'] },
})
const service = await run.createService({
  TASSIS_DNS_SERVERS: dns.address,
  TASSIS_SMTP_PORT: String(receiver.port),
})

const sent = new Map<string, Sent>()
/** Recipients that a kill may have made uncertain. */
const excused = new Set<string>()
const counts = new Map<string, number>()

async function runRound(number: number): Promise<void> {
  const running = service.running ?? (await service.start())
  const load = startLoad(service.url, key, random, `m${number}`, sent)
  inMessage.clear()
  await Bun.sleep(random.between(300, 2500))
  const gone = running.kill()
  for (const address of inMessage) excused.add(address)
  await gone
  await load.stop()
  await service.start()
  using db = service.openBooks()
  const isQuiet = await waitUntil(() => countUnsettled(db) === 0, QUIET_WITHIN_MS, 50)
  const found = [...judge(db), ...findImbalances(db)]
  if (!isQuiet) found.push(`mail is in delivery or was not attempted ${QUIET_WITHIN_MS} ms after the restart`)
  violations.push(...found)
  const summary = [...counts].map(([status, count]) => `${count} ${status}`).join(', ')
  console.log(
    `round ${number}: ${sent.size} emails, ${summary}${found.length > 0 ? `; ${found.length} VIOLATIONS` : ''}`,
  )
}

/** Recipients in delivery, or due and not attempted. */
const countUnsettled = (db: Database): number =>
  [...readStoredMail(db).byId.values()].filter(
    ({ status, attempts }) => status === 'processing' || (status === 'queued' && attempts === 0),
  ).length

/** The promises that are broken, one sentence each. */
function judge(db: Database): string[] {
  const { byId, twice } = readStoredMail(db)
  const found = twice.map((id) => `${id} is stored twice`)
  const received = new Map<string, { accepted: number; ended: number }>()
  for (const { rcptTo, isAccepted } of receiver.messages) {
    const seen = received.get(rcptTo) ?? { accepted: 0, ended: 0 }
    received.set(rcptTo, { accepted: seen.accepted + (isAccepted ? 1 : 0), ended: seen.ended + 1 })
  }
  counts.clear()
  for (const { id, outcome } of sent.values()) {
    const mail = byId.get(id)
    const address = `${id}@${RECEIVER_DOMAIN}`
    const { accepted = 0, ended = 0 } = received.get(address) ?? {}
    if (accepted > 1) found.push(`${id} was accepted ${accepted} times by the receiver`)
    if (!mail) {
      if (outcome === 'accepted' || ended > 0) found.push(`${id} was accepted and is not stored`)
      continue
    }
    const { status, nextAt } = mail
    counts.set(status, (counts.get(status) ?? 0) + 1)
    if (status === 'sent' && accepted === 0) found.push(`${id} is sent and was not received`)
    if (accepted > 0 && status !== 'sent' && status !== 'uncertain') found.push(`${id} was received and is ${status}`)
    if (status === 'uncertain' && !cut.has(address) && !excused.has(address))
      found.push(`${id} is uncertain, which neither a kill nor the receiver explains`)
    if (status === 'queued' && nextAt === null) found.push(`${id} is queued and has no next attempt`)
    if (status === 'failed') found.push(`${id} failed by an error of the service`)
  }
  return found
}

const key = await prepareDataDirectory(service.settings)
await run.collect(service, async () => {
  await run.runRounds(runRound)
  isPolite = true
})
console.log([...misdeeds].map(([what, count]) => `${what} ${count}`).join('; '))
run.end(`${rounds} kills, ${sent.size} emails, ${cut.size} cut by the receiver inside or after the message`)
