/**
 * @module The words of the unsubscribe pages, and what each is for; English. Readers know the sender, not this service. Names in braces are
 * filled in. Never any HTML.
 */

/** The words of all pages in one language. {address}, {sender} and {part} are names; {mail} is one of the `noMore…` or `asBefore…`. */
export interface Texts {
  /** BCP 47. */
  readonly language: string

  readonly unsubscribe: string
  readonly unsubscribeAll: string
  readonly subscribeAgain: string

  /** Stands for {sender} where that is not known: in a sentence, and at its start. */
  readonly thisSender: string
  readonly thisSenderAtStart: string

  /** The mail that a link is about, as it stands behind "gets no more": all, a part, a part with a name. */
  readonly noMoreAll: string
  readonly noMorePart: string
  readonly noMoreNamed: string
  /** The same behind "gets as before". */
  readonly asBeforeAll: string
  readonly asBeforePart: string
  readonly asBeforeNamed: string

  readonly question: string
  readonly willStop: string

  readonly isOff: string
  readonly hasStopped: string
  readonly mayStillArrive: string
  readonly wasItMistake: string

  readonly orAll: string
  readonly offerAll: string
  readonly essentialComes: string

  readonly isOn: string
  readonly hasStarted: string
  readonly changedMind: string

  readonly getsNothing: string
  readonly sendsNothing: string
  readonly wantMail: string
  readonly askSender: string
  readonly orForGood: string
  readonly offerForGood: string

  readonly senderGone: string

  readonly linkIsCut: string
  readonly whomUnknown: string
  readonly followAgain: string

  readonly didNotWork: string
  readonly tooOften: string
  readonly notStored: string
}

export const english: Texts = {
  language: 'en',
  unsubscribe: 'Unsubscribe',
  unsubscribeAll: 'Unsubscribe from all',
  subscribeAgain: 'Subscribe again',
  thisSender: 'this sender',
  thisSenderAtStart: 'This sender',
  noMoreAll: 'newsletters, offers or other mail of that kind from {sender}',
  noMorePart: 'mail like this from {sender}',
  noMoreNamed: 'mail of “{part}” from {sender}',
  asBeforeAll: 'newsletters, offers or other mail of that kind from {sender}',
  asBeforePart: 'mail like this from {sender}',
  asBeforeNamed: 'mail of “{part}” from {sender}',
  question: 'Unsubscribe?',
  willStop: '{address} will then get no more {mail}.',
  isOff: 'You are unsubscribed',
  hasStopped: '{address} gets no more {mail}.',
  mayStillArrive: 'What was sent before may still arrive.',
  wasItMistake: 'Was it a mistake?',
  orAll: 'Or stop all of it',
  offerAll: 'No newsletters, offers or other mail of that kind from {sender} at all.',
  essentialComes: 'Mail about something you did yourself, such as a receipt or a new password, still comes.',
  isOn: 'You are subscribed again',
  hasStarted: '{address} gets {mail} as before.',
  changedMind: 'Changed your mind?',
  getsNothing: 'You get no mail from this sender',
  sendsNothing: '{sender} sends nothing at all to {address}, not even receipts or new passwords.',
  wantMail: 'Do you want mail again?',
  askSender:
    'That cannot be changed here. Answer a message from {sender}, or write to the sender in another way, and ask for it.',
  orForGood: 'Or stay unsubscribed for good',
  offerForGood: 'Then you get no more {mail}, also when the sender sends to you again.',
  senderGone: '{address} gets no more mail through this service from {sender}. There is nothing left to do.',
  linkIsCut: 'This unsubscribe link is not complete',
  whomUnknown: 'It was cut or changed on its way, so it is not known whom to unsubscribe. Nothing was changed.',
  followAgain:
    'Follow the link in the message once more. When that does not help, answer the message and ask its sender to take you off the list.',
  didNotWork: 'That did not work',
  tooOften: 'This was changed many times within a short while. Try again in an hour.',
  notStored: 'It could not be stored just now, so nothing was changed. Try again in a few minutes.',
}
