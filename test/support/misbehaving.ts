/**
 * @module A misbehaving receiver: a receiver that records the messages that it saw, and ways to
 * misbehave that tests share. For tests only.
 */
import {
  type React,
  type Reaction,
  type Receiver,
  type ReceiverOptions,
  type SeenMessage,
  type Step,
  startReceiver,
} from './receiver.ts'

export interface Misbehaving extends Receiver {
  readonly messages: readonly SeenMessage[]
  /** How many messages to a recipient were answered with a 2xx after the final dot. */
  receivedBy(rcptTo: string): number
}

/** Starts a receiver on the system clock; what is not set is polite. */
export async function startMisbehaving(options: Partial<ReceiverOptions> = {}): Promise<Misbehaving> {
  const messages: SeenMessage[] = []
  const receiver = await startReceiver({
    react: () => undefined,
    ...options,
    onMessage: (message) => void messages.push(message),
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
