/** @module Answers a received message by email, as a reply in its conversation. */
import { Text } from '@mantine/core'
import { useState } from 'react'
import type { InboundEmail } from '#client/api.ts'
import { newIdempotencyKey } from '#client/client.ts'
import { api } from '../../api/client.ts'
import { ConfirmDialog, DialogButton } from '../../parts/dialog.tsx'
import { InlineLink } from '../../parts/links.tsx'
import { toProof } from './proof.ts'
import { toVisible } from './visible.ts'

const MAX_SUBJECT_LENGTH = 900
const MAX_QUOTED_LENGTH = 10_000

interface ReplyProps {
  readonly email: InboundEmail
}

export const ReplyButton = ({ email }: ReplyProps) => (
  <DialogButton
    label="Reply"
    needs="developer"
    reason={findObstacle(email)}
    // To a sender that is not proven it is not what to do first.
    variant={
      ['good', 'neutral'].includes(toProof({ authentication: email.authentication, from: email.from_address }).tone)
        ? 'filled'
        : 'default'
    }
  >
    {(close) => <ReplyDialog email={email} onClose={close} />}
  </DialogButton>
)

const findObstacle = ({ from_address: from, rcpt_to: to }: InboundEmail): string | undefined => {
  if (from === '') return 'It names no sender.'
  return to.length === 0 ? 'It names no recipient to answer from.' : undefined
}

function ReplyDialog({ email, onClose }: ReplyProps & { onClose(): void }) {
  // One key for all tries: without a response it is unknown whether the reply was accepted.
  const [idempotencyKey] = useState(newIdempotencyKey)
  return (
    <ConfirmDialog
      title="Reply"
      confirm="Send"
      closeOnClickOutside={false}
      fields={[
        { name: 'from', label: 'From', kind: 'choice', options: [...email.rcpt_to] },
        { name: 'subject', label: 'Subject', isRequired: true },
        { name: 'text_body', label: 'Text', kind: 'lines', rows: [8, 20], isRequired: true },
      ]}
      initial={{ from: email.rcpt_to[0], subject: toSubject(email.subject), text_body: quote(email) }}
      run={(body: Pick<Parameters<typeof api.emails.send>[0], 'from' | 'subject' | 'text_body'>) =>
        api.emails.send(
          {
            ...body,
            to: email.from_address,
            ...(email.message_id && {
              headers: { 'In-Reply-To': email.message_id, References: email.message_id },
            }),
          },
          { idempotencyKey },
        )
      }
      done={({ data: { id } }) => (
        <>
          The reply is on its way.{' '}
          <InlineLink to="/emails/$id" params={{ id }}>
            Show it
          </InlineLink>
        </>
      )}
      onClose={onClose}
    >
      <Text>
        To <bdi>{toVisible(email.from_address)}</bdi>
      </Text>
    </ConfirmDialog>
  )
}

const toSubject = (subject: string): string =>
  /^re:/i.test(subject) ? subject : `Re: ${subject}`.slice(0, MAX_SUBJECT_LENGTH)

const quote = ({ text_body: text, from_header: header, from_address: from }: InboundEmail): string =>
  text
    ? `\n\n${toVisible(header || from)} wrote:\n${text.slice(0, MAX_QUOTED_LENGTH).trimEnd().replace(/^/gm, '> ')}`
    : ''
