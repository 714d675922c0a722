/** @module The answer of an email: what happened, what to do, who must act; of several recipients, to each. */
import { Button, Group, VisuallyHidden } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import type { Email, RecipientExplanation } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { Copy } from '../../parts/copy.tsx'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { formatCount } from '../../parts/format.ts'
import { InlineLink, PersonLink, TextLink } from '../../parts/links.tsx'
import { Facts, Section } from '../../parts/page.tsx'
import { Notice, StatusBadge } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { toTone } from '../../parts/tone.ts'
import { useZone } from '../../parts/zone.ts'
import { findReason } from '../suppressions/reasons.ts'
import { RemoveSuppression } from '../suppressions/remove.tsx'
import { EmailActions } from './actions.tsx'
import {
  groupOutcomes,
  isBestFreed,
  isBestSentAgain,
  type OutcomeGroup,
  RESPONSIBLE_LABELS,
  toAdvice,
  toFurtherMail,
  toHeadline,
  toSummary,
} from './format.ts'
import { Timeline } from './timeline.tsx'

interface EmailProps {
  readonly email: Email
}

export function Answer({ email }: EmailProps) {
  useZone()
  const [only, ...others] = email.explanations
  return only !== undefined && others.length === 0 ? (
    <SingleAnswer email={email} outcome={only} />
  ) : (
    <ManyAnswers email={email} />
  )
}

function SingleAnswer({ email, outcome }: OutcomeProps) {
  const { address, state } = outcome
  const isUnseen = state === 'sent' && outcome.advice !== null
  const advice = toAdvice(outcome)
  return (
    <>
      <Notice
        tone={toTone(state)}
        title={
          <span role="status" data-sentence="">
            {toHeadline(email, outcome)}
          </span>
        }
      >
        <div className="answer">
          {advice !== '' && <p>{advice}</p>}
          <p>{toFurtherMail(outcome)}</p>
          <EmailActions email={email}>
            <RecipientActions email={email} outcome={outcome} />
          </EmailActions>
          {isUnseen ? <Unseen email={email} outcome={outcome} /> : <Folded facts={listFacts(email, outcome)} />}
        </div>
      </Notice>
      <Section
        title="Timeline"
        action={<TextLink to="/emails" search={{ to: address }} name="All mail to this person" />}
      >
        <Timeline email={email} address={address} />
      </Section>
    </>
  )
}

const ManyAnswers = ({ email }: EmailProps) => (
  <>
    <Notice
      tone={toTone(email.state)}
      title={
        <span role="status" data-sentence="">
          <VisuallyHidden>{email.sentence}</VisuallyHidden>
          <span aria-hidden="true">{toSummary(email)}</span>
        </span>
      }
    >
      <div className="answer">
        <EmailActions email={email} />
      </div>
    </Notice>
    <Section title="Recipients">
      {groupOutcomes(email).map((group) => (
        <Outcome key={`${group.outcome.state} ${group.outcome.sentence}`} email={email} group={group} />
      ))}
    </Section>
  </>
)

interface OutcomeProps extends EmailProps {
  readonly outcome: RecipientExplanation
}

type FactList = readonly (readonly [name: string, value: ReactNode])[]

/** What is known besides the sentence and the advice. */
const listFacts = (email: Email, outcome: RecipientExplanation): FactList =>
  [
    [
      'Who must act',
      outcome.who_must_act !== 'nobody' &&
        outcome.who_must_act !== 'sender' &&
        RESPONSIBLE_LABELS[outcome.who_must_act],
    ],
    [
      'Tried until',
      outcome.state !== 'scheduled' && outcome.tried_until && <Time iso={outcome.tried_until} isRelative />,
    ],
    ['Suppressed', outcome.suppression && <Suppressed email={email} outcome={outcome} />],
    ['Further mail', email.explanations.length > 1 && outcome.further_mail],
    ['Server', outcome.state !== 'captured' && outcome.state !== 'sent' && outcome.server],
  ].flatMap(([name, value]): FactList => (typeof name === 'string' && value ? [[name, value]] : []))

const Folded = ({ facts }: { readonly facts: FactList }) =>
  facts.length > 0 && (
    <details className="event-details">
      <summary>Details</summary>
      <Facts facts={facts} />
    </details>
  )

const Unseen = ({ email, outcome }: OutcomeProps) => (
  <details className="event-details" open>
    <summary>Recipient does not see it?</summary>
    <p>
      It should be in the mailbox or its spam folder, unless a filter moved it. The mail provider finds it by its
      Message-ID, time, server and reply.{' '}
      <Copy value={toEvidence(email, outcome)} what="what the mail provider needs" />
    </p>
  </details>
)

/** What is done for one recipient. */
function RecipientActions({ email, outcome }: OutcomeProps) {
  const { address } = outcome
  const deadLetter = email.actions.find(({ name, recipient }) => name === 'retry_dead_letter' && recipient === address)
  const isSuppressed = email.actions.some(
    ({ name, recipient }) => name === 'remove_suppression' && recipient === address,
  )
  const isSingle = email.explanations.length === 1
  return (
    <>
      {deadLetter && !isBestSentAgain(email) && <Retry path={deadLetter.path} />}
      {isSuppressed && (isBestFreed(outcome) || !isSingle) && <RemoveSuppression address={address} />}
    </>
  )
}

/** What the provider of a mailbox needs to find a message. */
const toEvidence = ({ message_id: id }: Email, { address, at, server, reply }: RecipientExplanation): string =>
  [`Message-ID: ${id}`, `To: ${address}`, `Accepted: ${at} by ${server}`, `Reply: ${reply}`].join('\n')

/** By what, and since when. */
function Suppressed({ email, outcome: { suppression } }: OutcomeProps) {
  if (suppression === null) return null
  const { reason, created_at: since, source_email_id: source } = suppression
  return (
    <>
      <bdi>{findReason(reason)?.word ?? reason}</bdi> since <Time iso={since} />
      {source === email.id && ', by this email'}
      {source !== null && source !== email.id && (
        <>
          {', by the email '}
          <SourceLink id={source} />
        </>
      )}
    </>
  )
}

/** The subject of the email, when it is there. */
function SourceLink({ id }: { readonly id: string }) {
  const { data } = useData(read.emails.get(id))
  return (
    <InlineLink to="/emails/$id" params={{ id }} name={<bdi>{data?.subject || 'that bounced or was reported'}</bdi>} />
  )
}

/** The same email is tried again, under its Message-ID. @param path of the request that does it */
function Retry({ path }: { readonly path: string }) {
  const [, id = ''] = /([^/]+)\/retry$/.exec(path) ?? []
  return (
    <ConfirmButton
      label="Retry"
      size="xs"
      needs="developer"
      title="Retry this email?"
      isDangerous={false}
      refreshes={['emails', 'people']}
      run={() => api.deadLetters.retry(id)}
      done="It is tried again now."
    >
      The same email is tried again, with all of its time. If it may have arrived, it arrives twice.
    </ConfirmButton>
  )
}

const MAX_SHOWN = 5

function Outcome({ email, group: { outcome, recipients } }: EmailProps & { readonly group: OutcomeGroup }) {
  const [hasAll, setHasAll] = useState(false)
  const shown = hasAll ? recipients : recipients.slice(0, MAX_SHOWN)
  return (
    <div className="outcome">
      <div className="outcome-head">
        <StatusBadge status={outcome.state} />
        <span className="dimmed">{formatCount(recipients.length, 'recipient')}</span>
      </div>
      <p>
        {outcome.sentence} <span className="dimmed">{outcome.state !== 'sent' && outcome.advice}</span>
      </p>
      <ul className="plain-list">
        {shown.map(({ explanation, kind }) => (
          <li key={`${kind} ${explanation.address}`}>
            <Recipient email={email} explanation={explanation} kind={kind} />
          </li>
        ))}
      </ul>
      {recipients.length > shown.length && (
        <Button variant="default" size="xs" onClick={() => setHasAll(true)}>
          Show all {recipients.length}
        </Button>
      )}
    </div>
  )
}

interface RecipientProps extends EmailProps {
  readonly explanation: RecipientExplanation
  readonly kind: string
}

function Recipient({ email, explanation, kind }: RecipientProps) {
  const [isOpen, setIsOpen] = useState(false)
  const { address } = explanation
  return (
    <details className="recipient" onToggle={({ currentTarget: { open } }) => setIsOpen(open)}>
      <summary>
        <bdi>{address}</bdi>
        {kind !== 'to' && <span className="dimmed"> {kind === 'cc' ? 'Cc' : 'Bcc'}</span>}
      </summary>
      {isOpen && (
        <div className="recipient-body">
          <PersonLink address={address}>All about this person</PersonLink>
          {toAdvice(explanation)}
          <Facts facts={listFacts(email, explanation)} />
          <Group gap="xs">
            <RecipientActions email={email} outcome={explanation} />
          </Group>
          <Timeline email={email} address={address} />
        </div>
      )}
    </details>
  )
}
