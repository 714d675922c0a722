/**
 * @module A misbehaving receiver: the receiver of the simulator, which records the messages that it saw, and ways to
 * misbehave that tests share. For tests only.
 */
import type { React, Reaction, SeenMessage, Step } from '#features/sending/simulator/reaction.ts'
import { type Receiver, startReceiver } from '#features/sending/simulator/receiver.ts'
import type { ReceiverOptions } from '#features/sending/simulator/receiver-session.ts'
import { type Clock, type Millis, systemClock } from '#platform/time/clock.ts'

export interface Misbehaving extends Receiver {
  readonly messages: readonly SeenMessage[]
  /** How many messages to a recipient were answered with a 2xx after the final dot. */
  receivedBy(rcptTo: string): number
}

/** Starts a receiver on the real clock; what is not set is polite. */
export async function startMisbehaving(options: Partial<ReceiverOptions> = {}): Promise<Misbehaving> {
  const messages: SeenMessage[] = []
  const receiver = await startReceiver({
    clock: systemClock,
    hostname: 'mx.receiver.test',
    react: () => undefined,
    ...options,
    onMessage: (message) => {
      messages.push(message)
      options.onMessage?.(message)
    },
  })
  const added = {
    messages,
    receivedBy: (address: string) =>
      messages.filter(({ rcptTo, isAccepted }) => rcptTo === address && isAccepted).length,
  }
  // Not a copy, because the counters of the receiver are getters.
  return Object.assign(Object.create(receiver), added)
}

/** Reacts at one step, every time. */
export const reactAt =
  (step: Step, reaction: Reaction): React =>
  (at) =>
    at.step === step ? reaction : undefined

/** Reacts at one step of the first connections only. */
export const reactFirst =
  (step: Step, reaction: Reaction, connections = 1): React =>
  (at) =>
    at.step === step && at.connection <= connections ? reaction : undefined

/** Rejects the first attempt of each pair of sender and recipient. */
export const greylist =
  (reply = '451 4.7.1 Greylisted, please try again in 60 seconds'): React =>
  ({ step, attempts }) =>
    step === 'rcpt' && attempts === 1 ? reply : undefined

export interface RateLimit {
  readonly clock: Pick<Clock, 'now'>
  /** Messages accepted in each window. */
  readonly max: number
  readonly windowMs: number
  /** The step at which the limit is checked, and the reply to what is too much. */
  readonly step: 'banner' | 'mail' | 'rcpt' | 'dot'
  readonly reply: string
}

/** A limit of a provider: counts what passes, in fixed windows, and rejects the rest. */
export function limitRate({
  clock,
  max,
  windowMs,
  step,
  reply,
}: RateLimit): React & { readonly highest: () => number } {
  let start: Millis = 0
  let count = 0
  let highest = 0
  const react: React = (at) => {
    if (at.step !== step) return undefined
    const now = clock.now()
    if (now - start >= windowMs) {
      start = now
      count = 0
    }
    if (count >= max) return { reply, ...(reply.startsWith('421') && { end: 'close' as const }) }
    count++
    highest = Math.max(highest, count)
    return undefined
  }
  return Object.assign(react, { highest: () => highest })
}

/** Replies of providers about our IP address and rate, from the pages that test/corpus/replies names. */
export const PROVIDER_REPLIES = {
  gmailRate:
    '421-4.7.28 Gmail has detected an unusual rate of unsolicited mail originating\r\n421-4.7.28 from your IP Netblock. To protect our users from spam, mail sent\r\n421-4.7.28 from your IP Netblock has been temporarily rate limited. Please visit\r\n421 4.7.28 https://support.google.com/mail/?p=UnsolicitedRateLimitError - gsmtp',
  outlookRate:
    '451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation. For e-mail delivery information see https://aka.ms/postmaster (S775)',
  outlookBlock:
    "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3150).",
  yahooRate:
    '421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume or user complaints - 4.16.55.1; see https://postmaster.yahooinc.com/error-codes',
  gmxBlock:
    '554-gmx.net (mxgmx117) Nemesis ESMTP Service not available\r\n554-No SMTP service\r\n554-IP address is block listed.\r\n554 For explanation visit https://postmaster.gmx.net/en/error-messages?ip=192.0.2.1&c=bl',
  telekomBlock:
    '554 IP=192.0.2.1 - A problem occurred. Ask your postmaster for help or to contact tosa@rx.t-online.de to clarify. (NOWL)',
  orangeRate:
    '421 mwinf5c79 ME Trop de connexions, veuillez verifier votre configuration. Too many connections, slow down. OFR005_104 [104]',
  comcastBlock:
    '554 resimta-po-12v.sys.comcast.net comcast 192.0.2.1 Comcast BL000010 Bulk SMTP Blocked - refer to https://postmaster.comcast.net/smtp-error-codes.php#BL000010',
  zenBlock:
    '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org; https://www.spamhaus.org/query/ip/192.0.2.1',
} as const
