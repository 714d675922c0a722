/** @module The answer of an email: what happened, what to do, who must act; of several recipients, to each. */
import { Button } from '@mantine/core'
import { useState } from 'react'
import type { Email, RecipientExplanation } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { Copy } from '../../parts/copy.tsx'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { formatCount } from '../../parts/format.ts'
import { InlineLink, TextLink } from '../../parts/links.tsx'
import { Notice } from '../../parts/notice.tsx'
import { Facts, Section } from '../../parts/page.tsx'
import { PersonLink } from '../../parts/person-link.tsx'
import { StatusBadge, toTone } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { findReason } from '../suppressions/reasons.ts'
import { RemoveSuppression } from '../suppressions/remove.tsx'
import { EmailActions } from './actions.tsx'
import { RESPONSIBLE_LABELS } from './format.ts'
import { groupOutcomes, type OutcomeGroup } from './groups.ts'
import { Timeline } from './timeline.tsx'

interface EmailProps {
  readonly email: Email
}

export function Answer({ email }: EmailProps) {
  const [only, ...others] = email.explanations
  const isSingle = only !== undefined && others.length === 0
  const [worst] = groupOutcomes(email)
  return (
    <>
      <Notice
        tone={toTone(worst?.outcome.state ?? email.state)}
        title={
          <span role="status" data-sentence="">
            {email.sentence}
          </span>
        }
      >
        {isSingle && <OutcomeFacts email={email} outcome={only} />}
        <EmailActions email={email} />
      </Notice>
      {isSingle ? (
        <Section
          title="Timeline"
          action={
            <TextLink to="/emails" search={{ to: only.address }}>
              All mail to this person
            </TextLink>
          }
        >
          <Timeline email={email} address={only.address} />
        </Section>
      ) : (
        <Section title="Recipients">
          {groupOutcomes(email).map((group) => (
            <Outcome key={`${group.outcome.state} ${group.outcome.sentence}`} email={email} group={group} />
          ))}
        </Section>
      )}
    </>
  )
}

interface OutcomeProps extends EmailProps {
  readonly outcome: RecipientExplanation
}

function OutcomeFacts({ email, outcome }: OutcomeProps) {
  const { state, advice, who_must_act: who, next_at: next, tried_until: until, reply, server, suppression } = outcome
  const isUnseen = state === 'sent' && advice !== null
  const deadLetter = email.actions.find(
    ({ name, recipient }) => name === 'retry_dead_letter' && recipient === outcome.address,
  )
  return (
    <Facts
      facts={[
        [isUnseen ? 'Not seen?' : 'What to do', advice],
        ['Who must act', who !== 'nobody' ? RESPONSIBLE_LABELS[who] : next && 'Nobody'],
        [state === 'scheduled' ? 'Sent at' : 'Next attempt', next && <Time iso={next} isRelative />],
        ['Tried until', state !== 'scheduled' && until && <Time iso={until} isRelative />],
        ['Suppressed', suppression && <Suppressed email={email} outcome={outcome} />],
        ['Further mail', outcome.further_mail],
        ['Reply', state !== 'complained' && reply],
        ['Server', (isUnseen || reply === null) && server],
        [
          'For its provider',
          isUnseen && (
            <span className="fact-with-action">
              Message-ID, time, server and reply
              <Copy value={toEvidence(email, outcome)} what="what the mail provider needs" />
            </span>
          ),
        ],
        ['Kept', deadLetter && <DeadLetter path={deadLetter.path} />],
      ]}
    />
  )
}

/** What the provider of a mailbox needs to find a message. */
const toEvidence = ({ message_id: id }: Email, { address, at, server, reply }: RecipientExplanation): string =>
  [`Message-ID: ${id}`, `To: ${address}`, `Accepted: ${at} by ${server}`, `Reply: ${reply}`].join('\n')

/** By what, since when, and the button that ends it. */
function Suppressed({ email, outcome: { address, suppression } }: OutcomeProps) {
  if (suppression === null) return null
  const { reason, created_at: since, source_email_id: source } = suppression
  return (
    <span className="fact-with-action">
      <span>
        <bdi>{findReason(reason)?.word ?? reason}</bdi> since <Time iso={since} />
        {source === email.id && ', by this email'}
        {source !== null && source !== email.id && (
          <>
            {', by the email '}
            <SourceLink id={source} />
          </>
        )}
      </span>
      {email.actions.some(({ name, recipient }) => name === 'remove_suppression' && recipient === address) && (
        <RemoveSuppression address={address} />
      )}
    </span>
  )
}

/** The subject of the email, when it is there. */
function SourceLink({ id }: { readonly id: string }) {
  const { data } = useData(read.emails.get(id))
  return (
    <InlineLink to="/emails/$id" params={{ id }}>
      <bdi>{data?.subject || 'that bounced or was reported'}</bdi>
    </InlineLink>
  )
}

/** The same email is tried again, under its Message-ID. @param path of the request that does it */
function DeadLetter({ path }: { readonly path: string }) {
  const [, id = ''] = /([^/]+)\/retry$/.exec(path) ?? []
  return (
    <span className="fact-with-action">
      <span>As a dead letter, which can be retried.</span>
      <ConfirmButton
        label="Retry"
        size="xs"
        needs="developer"
        title="Retry this email?"
        confirm="Retry"
        isDangerous={false}
        refreshes={['emails', 'people']}
        run={() => api.deadLetters.retry(id)}
        done="It is tried again now."
      >
        The same email is tried again, with all of its time. If it may have arrived, it arrives twice.
      </ConfirmButton>
    </span>
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
        {outcome.sentence} <span className="dimmed">{outcome.advice}</span>
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
          <OutcomeFacts email={email} outcome={explanation} />
          <Timeline email={email} address={address} />
        </div>
      )}
    </details>
  )
}
