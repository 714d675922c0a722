/** @module Words about actions on mail in the queue, which several commands share. Pure. */
import { quoteShellWord, toPrintable } from './output.ts'

export const formatInDelivery = (count: number): string => (count === 0 ? '' : `, ${count} in delivery left alone`)

export const formatHeldAndInDelivery = ({
  held,
  in_delivery: inDelivery,
}: {
  readonly held: number
  readonly in_delivery: number
}): string => `${held === 0 ? '' : `, ${held} held left alone`}${formatInDelivery(inDelivery)}`

/** Why an account may not send, and the commands that help its operator. */
export const formatSendingBlock = (block: string, account: string): string =>
  `${/[.!?]$/.test(block) ? block : `${block}.`} \`tassis accounts show ${account}\` shows it, \`tassis accounts resume ${account}\` ends a pause.`

export const formatSuspended = (provider: string): string =>
  `${toPrintable(provider)} is suspended, so its mail waits for the probe; \`tassis providers resume ${quoteShellWord(toPrintable(provider))}\` ends that.`
