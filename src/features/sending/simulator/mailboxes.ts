/**
 * @module The mailboxes of the simulator, `sim.{hostname}`: what happens to mail to each of them. Pure. Without a
 * code in its address, no mailbox makes us back off from the simulator, which would delay mail to the other mailboxes.
 */
import { seconds } from '#platform/units.ts'
import type { Reaction, StepContext } from './reaction.ts'

/** What a reader of a mailbox does once a message is delivered. */
export type ReaderAction = 'open' | 'click' | 'complain'

interface Mailbox {
  /** What happens, for the documentation of the API. */
  readonly doc: string
  readonly react?: (at: StepContext, enhanced: string) => Reaction | undefined
  readonly reader?: readonly ReaderAction[]
  /** Class of the enhanced status code that the address may name after a plus sign. */
  readonly codeClass?: '4' | '5'
}

/** Delay of each reply of `slow`, from RCPT on. */
const SLOW_REPLY_MS = seconds(3)

const MAILBOXES: Readonly<Record<string, Mailbox>> = {
  deliver: { doc: 'is delivered' },
  open: { doc: 'is delivered, then opened', reader: ['open'] },
  click: { doc: 'is delivered, then opened, and a link is clicked', reader: ['open', 'click'] },
  complain: { doc: 'is delivered, then reported as spam', reader: ['complain'] },
  bounce: {
    doc: 'is rejected with 550 and the enhanced status code, 5.1.1 without one',
    codeClass: '5',
    react: ({ step }, enhanced) => (step === 'rcpt' ? `550 ${enhanced || '5.1.1'} Simulated rejection` : undefined),
  },
  defer: {
    doc: 'is rejected with 451 and the enhanced status code, 4.3.0 without one, at every attempt until it expires',
    codeClass: '4',
    react: ({ step }, enhanced) => (step === 'rcpt' ? `451 ${enhanced || '4.3.0'} Simulated deferral` : undefined),
  },
  greylist: {
    doc: 'is deferred at the first attempt and delivered at the second',
    react: ({ step, attempts }) =>
      step === 'rcpt' && attempts === 1 ? '451 4.7.1 Simulated greylisting, please try again later' : undefined,
  },
  slow: {
    doc: 'is delivered by a server that answers slowly',
    react: ({ step }) =>
      step === 'rcpt' || step === 'data' || step === 'dot' ? { delayMs: SLOW_REPLY_MS } : undefined,
  },
  'drop-after-dot': {
    doc: 'becomes `uncertain`: the server closes the connection after the final dot without a reply',
    react: ({ step }) => (step === 'dot' ? { end: 'close' } : undefined),
  },
}

const ADDRESS = /^([a-z-]+)(?:\+([45])\.(\d{1,3})\.(\d{1,3}))?$/

/** The mailbox of a local part, in any case, and the enhanced status code that it names; undefined if there is none. */
function findMailbox(localPart: string): { readonly mailbox: Mailbox; readonly enhanced: string } | undefined {
  const [, name = '', codeClass, subject, detail] = ADDRESS.exec(localPart.toLowerCase()) ?? []
  const mailbox = Object.hasOwn(MAILBOXES, name) ? MAILBOXES[name] : undefined
  if (!mailbox || (codeClass !== undefined && codeClass !== mailbox.codeClass)) return undefined
  return { mailbox, enhanced: codeClass === undefined ? '' : `${codeClass}.${Number(subject)}.${Number(detail)}` }
}

/** One address a line, in angle brackets: our classification of replies takes the names for words otherwise. */
const formatUnknownMailbox = (domain: string): string =>
  [
    '550-5.1.1 User unknown; the simulator has these mailboxes:',
    ...Object.entries(MAILBOXES).map(
      ([name, { codeClass }]) => `550-5.1.1 <${name}${codeClass === undefined ? '' : `+${codeClass}.x.y`}@${domain}>`,
    ),
    '550 5.1.1 The code after the plus sign may be left out.',
  ].join('\r\n')

/** What the simulator does at a step of a session. */
export function reactAsSimulator(at: StepContext): Reaction | undefined {
  if (at.rcptTo === '') return undefined
  const { localPart, domain } = splitAddress(at.rcptTo)
  const found = findMailbox(localPart)
  if (!found) return formatUnknownMailbox(domain)
  return found.mailbox.react?.(at, found.enhanced)
}

/** What the reader of a delivered message does. */
export const findReaderActions = (address: string): readonly ReaderAction[] =>
  findMailbox(splitAddress(address).localPart)?.mailbox.reader ?? []

function splitAddress(address: string): { readonly localPart: string; readonly domain: string } {
  const at = address.lastIndexOf('@')
  return { localPart: address.slice(0, at), domain: address.slice(at + 1) }
}
