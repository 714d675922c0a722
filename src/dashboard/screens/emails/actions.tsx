/** @module What can be done with an email now: retry, send again, reschedule, cancel; suppress a recipient. */
import { Checkbox, Group, Stack } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import type { Email, EmailAction, ResendEmailRequest, UpdateEmailRequest } from '#client/api.ts'
import { newIdempotencyKey } from '#client/client.ts'
import { api } from '../../api/client.ts'
import { useAllowed } from '../../api/session.tsx'
import { RunButton } from '../../parts/buttons.tsx'
import { ConfirmButton, ConfirmDialog, DialogButton } from '../../parts/dialog.tsx'
import type { Input, Values } from '../../parts/fields.ts'
import { ButtonLink } from '../../parts/links.tsx'
import { Menu, type MenuAction } from '../../parts/popover.tsx'
import { Notice } from '../../parts/status.tsx'
import { RemoveDialog } from '../suppressions/remove.tsx'
import { isBestFreed, isBestSentAgain } from './format.ts'

interface EmailActionsProps {
  readonly email: Email
}

const BUTTON = { size: 'xs', needs: 'developer' } as const

/** What helps now. @param children what is done for its only recipient */
export function EmailActions({ email, children }: EmailActionsProps & { readonly children?: ReactNode }) {
  const { id, domain_id: domainId, scheduled_at: scheduledAt } = email
  const can = (wanted: EmailAction['name']) => email.actions.some(({ name }) => name === wanted)
  const isRefused = useAllowed(BUTTON.needs) !== undefined
  const isRetried = can('retry') || can('retry_dead_letter')
  const asked = isBestSentAgain(email) ? 'send it again' : isRetried ? 'retry it' : can('cancel') && 'change it'
  return (
    <Group gap="xs">
      {email.sandbox && email.state === 'captured' && (
        <ButtonLink
          size="xs"
          {...(domainId ? { to: '/domains/$id', params: { id: domainId } } : { to: '/domains/new' })}
          name="Verify the domain"
        />
      )}
      {children}
      {can('retry') && (
        <RunButton
          label="Retry now"
          {...BUTTON}
          refreshes={['emails', 'people']}
          run={() => api.emails.retry(id)}
          done="It is tried again now."
        />
      )}
      {isBestSentAgain(email) && (
        <DialogButton label="Send again" variant="default" {...BUTTON}>
          {(close) => <ResendDialog email={email} onClose={close} />}
        </DialogButton>
      )}
      {can('release') && (
        <ConfirmButton
          label="Release"
          title="Release this email?"
          isDangerous={false}
          refreshes={['emails']}
          run={() => api.emails.release(id)}
          done="The email was released."
          {...BUTTON}
          variant="filled"
        >
          A program wrote it. It is sent as it is shown here.
        </ConfirmButton>
      )}
      {can('reschedule') && (
        <>
          <ConfirmButton
            label="Reschedule"
            title="Reschedule this email"
            isDangerous={false}
            fields={[
              {
                name: 'send_at',
                label: 'Send at',
                kind: 'time',
                hint: 'In the time zone of the account menu.',
                isRequired: true,
              },
            ]}
            initial={{ send_at: scheduledAt }}
            refreshes={['emails']}
            run={(body: UpdateEmailRequest) => api.emails.update(id, body)}
            done="The email was rescheduled."
            {...BUTTON}
          />
          <ConfirmButton
            label="Send now"
            title="Send this email now?"
            isDangerous={false}
            refreshes={['emails']}
            run={() => api.emails.update(id, { send_at: null })}
            done="The email is sent now."
            {...BUTTON}
          >
            It does not wait for its time.
          </ConfirmButton>
        </>
      )}
      {can('cancel') && (
        <ConfirmButton
          label={can('release') ? 'Discard' : 'Cancel'}
          title={can('release') ? 'Discard this draft?' : 'Cancel this email?'}
          confirm={can('release') ? 'Discard it' : 'Cancel the email'}
          refreshes={['emails']}
          run={() => api.emails.cancel(id)}
          done="The email was cancelled."
          {...BUTTON}
        >
          None of its recipients will get it. This cannot be undone.
        </ConfirmButton>
      )}
      {isRefused && asked && <span className="dimmed">Ask a developer to {asked}.</span>}
    </Group>
  )
}

/** What is seldom done. */
export function EmailMenu({ email }: EmailActionsProps) {
  const [open, setOpen] = useState<'resend' | 'suppress' | 'unsuppress'>()
  const close = () => setOpen(undefined)
  const [only, ...others] = email.explanations
  const suppressed = others.length === 0 && only?.suppression && !isBestFreed(only) ? only.address : undefined
  const stopped = email.explanations.flatMap(({ address, suppression }) =>
    suppression?.stops === 'all' ? address : [],
  )
  const addresses = listAddresses(email).filter((address) => !stopped.includes(address))
  const actions: MenuAction[] = []
  if (email.actions.some(({ name }) => name === 'resend') && !isBestSentAgain(email))
    actions.push({ label: 'Send again', needs: 'developer', onClick: () => setOpen('resend') })
  if (addresses.length > 0)
    actions.push({
      label: addresses.length === 1 ? 'Suppress the recipient' : 'Suppress a recipient',
      needs: 'developer',
      onClick: () => setOpen('suppress'),
    })
  if (suppressed !== undefined)
    actions.push({ label: 'Remove suppression', needs: 'support', onClick: () => setOpen('unsuppress') })
  return (
    <>
      {actions.length > 0 && <Menu label="More actions" actions={actions} />}
      {open === 'resend' && <ResendDialog email={email} onClose={close} />}
      {open === 'unsuppress' && suppressed !== undefined && <RemoveDialog address={suppressed} onClose={close} />}
      {open === 'suppress' && (
        <ConfirmDialog
          title="Suppress a recipient?"
          confirm="Suppress"
          isDangerous
          fields={[
            {
              name: 'email_address',
              label: 'Recipient',
              kind: 'choice',
              options: addresses.length === 1 ? addresses : [{ value: '', label: 'Choose a recipient' }, ...addresses],
              isRequired: true,
            },
          ]}
          refreshes={['emails', 'suppressions', 'people']}
          run={api.suppressions.create}
          done={({ data }) => `${data.email_address} is on the suppression list.`}
          onClose={close}
        >
          No email of this account is sent to a suppressed address, until its suppression is removed.
        </ConfirmDialog>
      )}
    </>
  )
}

const listAddresses = (email: Email): readonly string[] => [...new Set(email.recipients.map(({ address }) => address))]

function ResendDialog({ email, onClose }: EmailActionsProps & { onClose(): void }) {
  const addresses = listAddresses(email)
  // One key for all tries of this dialog: without a reply it is unknown whether the email was accepted.
  const [idempotencyKey] = useState(newIdempotencyKey)
  const navigate = useNavigate()
  return (
    <ConfirmDialog
      title="Send this email again?"
      confirm="Send again"
      fields={
        addresses.length > 1
          ? [{ name: 'to', label: 'Recipients', render: (input) => <Recipients addresses={addresses} {...input} /> }]
          : []
      }
      initial={{ to: addresses }}
      refreshes={['emails', 'people']}
      run={({ to = addresses }: ResendEmailRequest) =>
        api.emails.resend(email.id, to.length < addresses.length ? { to } : {}, { idempotencyKey })
      }
      footer={({ values }) => <Warnings email={email} {...values} />}
      onDone={({ data }) => navigate({ to: '/emails/$id', params: { id: data.id } })}
      onClose={onClose}
    >
      A new email with the same sender, subject and content is sent to{' '}
      <bdi>{addresses.length === 1 ? addresses[0] : 'the recipients below'}</bdi>. It counts like any other.
    </ConfirmDialog>
  )
}

const Recipients = ({ addresses, value, error, set }: Input & { readonly addresses: readonly string[] }) => (
  <Checkbox.Group label="Recipients" value={value as string[]} onChange={set} error={error}>
    <Stack gap={4} mt={4} mah="40vh" style={{ overflowY: 'auto' }}>
      {addresses.map((address) => (
        <Checkbox key={address} value={address} label={<bdi>{address}</bdi>} />
      ))}
    </Stack>
  </Checkbox.Group>
)

/** What it means for those who are chosen; without a choice everybody is. */
function Warnings({ email, to }: EmailActionsProps & Values) {
  const isChosen = ({ address }: { readonly address: string }): boolean => !Array.isArray(to) || to.includes(address)
  const mayHaveIt = email.recipients.filter((one) => one.status === 'uncertain' && isChosen(one))
  const haveIt = email.explanations.filter((one) => one.state === 'sent' && isChosen(one))
  const suppressed = email.explanations.filter((one) => one.state === 'rejected' && one.suppression && isChosen(one))
  return (
    <>
      {mayHaveIt.length > 0 && (
        <Notice tone="warning" title="It may arrive twice">
          It is unknown whether {mayHaveIt.map(({ address }) => address).join(', ')} got the first email.
        </Notice>
      )}
      {haveIt.length > 0 && (
        <Notice tone="warning" title="It arrives twice">
          {haveIt.length === 1 ? haveIt[0]?.address : `${haveIt.length} recipients`} already got the first email.
        </Notice>
      )}
      {suppressed.length > 0 && (
        <Notice tone="warning" title="Suppressed addresses get none">
          {suppressed.map(({ address }) => address).join(', ')} got no mail the first time. Remove the suppression
          first.
        </Notice>
      )}
    </>
  )
}
