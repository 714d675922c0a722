/** @module What can be done with an email: cancel, reschedule, send again, suppress a recipient. */
import { Alert, Button, Checkbox, Group, Radio, Stack, Text, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { Email } from '#client/api.ts'
import { newIdempotencyKey } from '#client/client.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { bindText, ConfirmDialog, DialogFrame, SmallAction } from '../../parts/form.tsx'
import { toLocalMinute } from '../../parts/format.ts'
import { Done } from '../../parts/page.tsx'
import { toStatusWord } from '../../parts/status.tsx'

type Dialog = 'cancel' | 'reschedule' | 'resend' | 'suppress'

interface EmailActionsProps {
  readonly email: Email
}

const OPEN: readonly string[] = ['queued', 'scheduled', 'processing']

export function EmailActions({ email }: EmailActionsProps) {
  const [dialog, setDialog] = useState<Dialog>()
  const [done, setDone] = useState<string>()
  const isScheduled = email.status === 'scheduled'
  const status = toStatusWord(email.state).toLowerCase()
  const scheduledReason = isScheduled ? undefined : `Only a scheduled email can be changed; this one is ${status}.`
  const resendReason = OPEN.includes(email.status)
    ? `This email is still ${status}; it can be sent again when that has ended.`
    : undefined
  const close = (message?: string) => {
    setDialog(undefined)
    setDone(message)
  }
  const button = (name: Dialog, label: string, reason: string | undefined) => (
    <SmallAction needs="developer" reason={reason} onClick={() => setDialog(name)}>
      {label}
    </SmallAction>
  )
  return (
    <Stack gap="xs">
      <Group gap="xs">
        {button('resend', 'Send again', resendReason)}
        {button('reschedule', 'Reschedule', scheduledReason)}
        {button('cancel', 'Cancel', scheduledReason)}
        {button('suppress', 'Suppress a recipient', undefined)}
      </Group>
      <Done message={done} />
      {dialog === 'cancel' && <CancelDialog email={email} onClose={close} />}
      {dialog === 'reschedule' && <RescheduleDialog email={email} onClose={close} />}
      {dialog === 'resend' && <ResendDialog email={email} onClose={close} />}
      {dialog === 'suppress' && <SuppressDialog email={email} onClose={close} />}
    </Stack>
  )
}

interface DialogProps extends EmailActionsProps {
  onClose(message?: string): void
}

const CancelDialog = ({ email, onClose }: DialogProps) => (
  <ConfirmDialog
    title="Cancel this email?"
    confirm="Cancel the email"
    isDangerous
    refreshes={['emails']}
    run={() => api.emails.cancel(email.id)}
    onDone={() => onClose('The email was cancelled.')}
    onClose={() => onClose()}
  >
    <Text>None of its recipients will get it. This cannot be undone.</Text>
  </ConfirmDialog>
)

function RescheduleDialog({ email, onClose }: DialogProps) {
  const [time, setTime] = useState(email.scheduled_at ? toLocalMinute(new Date(email.scheduled_at)) : '')
  const change = useChange((sendAt: string | null) => api.emails.update(email.id, { send_at: sendAt }), 'emails')
  const isIncomplete = Number.isNaN(new Date(time).getTime())
  return (
    <DialogFrame
      title="Reschedule this email"
      confirm="Reschedule"
      work={change}
      isIncomplete={isIncomplete}
      extra={
        <Button
          variant="default"
          loading={change.isPending}
          onClick={() => change.mutate(null, { onSuccess: () => onClose('The email is sent now.') })}
        >
          Send now
        </Button>
      }
      onConfirm={() =>
        change.mutate(new Date(time).toISOString(), { onSuccess: () => onClose('The email was rescheduled.') })
      }
      onClose={() => onClose()}
    >
      <TextInput
        type="datetime-local"
        label="Send at"
        description="In the time zone of this browser."
        {...bindText(time, setTime)}
        required
        data-autofocus
      />
    </DialogFrame>
  )
}

function ResendDialog({ email, onClose }: DialogProps) {
  const addresses = [...new Set(email.recipients.map(({ address }) => address))]
  const [chosen, setChosen] = useState(addresses)
  // One key for all tries of this dialog: without a reply it is unknown whether the email was accepted.
  const [idempotencyKey] = useState(newIdempotencyKey)
  const navigate = useNavigate()
  const resend = useChange((to: readonly string[]) => {
    const isSubset = to.length < addresses.length
    return api.emails.resend(email.id, isSubset ? { to } : {}, { idempotencyKey })
  }, 'emails')
  const mayHaveIt = email.recipients.filter(({ address, status }) => status === 'uncertain' && chosen.includes(address))
  const haveIt = email.explanations.filter(({ address, state }) => state === 'sent' && chosen.includes(address))
  const suppressed = email.recipients.filter(({ address, status }) => status === 'rejected' && chosen.includes(address))
  const send = () =>
    resend.mutate(chosen, {
      onSuccess: ({ data }) => {
        onClose()
        void navigate({ to: '/emails/$id', params: { id: data.id } })
      },
    })
  return (
    <DialogFrame
      title="Send this email again?"
      confirm="Send again"
      work={resend}
      isIncomplete={chosen.length === 0}
      onConfirm={send}
      onClose={() => onClose()}
    >
      <Text>A new email with the same sender, subject and content is sent. It counts like any other.</Text>
      {addresses.length > 1 && (
        <Checkbox.Group label="Recipients" value={chosen} onChange={setChosen}>
          <Stack gap={4} mt={4} mah="40vh" style={{ overflowY: 'auto' }}>
            {addresses.map((address) => (
              <Checkbox key={address} value={address} label={<bdi>{address}</bdi>} />
            ))}
          </Stack>
        </Checkbox.Group>
      )}
      {mayHaveIt.length > 0 && (
        <Alert color="yellow" title="It may arrive twice">
          It is unknown whether {mayHaveIt.map(({ address }) => address).join(', ')} got the first email.
        </Alert>
      )}
      {haveIt.length > 0 && (
        <Alert color="yellow" title="It arrives twice">
          {haveIt.length === 1 ? haveIt[0]?.address : `${haveIt.length} recipients`} already got the first email.
        </Alert>
      )}
      {suppressed.length > 0 && (
        <Alert color="yellow" title="Suppressed addresses get none">
          {suppressed.map(({ address }) => address).join(', ')} got no mail the first time. Remove the address from the
          suppression list first.
        </Alert>
      )}
    </DialogFrame>
  )
}

function SuppressDialog({ email, onClose }: DialogProps) {
  const addresses = [...new Set(email.recipients.map(({ address }) => address))]
  const [address, setAddress] = useState(addresses.length === 1 ? (addresses[0] ?? '') : '')
  return (
    <ConfirmDialog
      title="Suppress a recipient?"
      confirm="Suppress"
      isDangerous
      refreshes={['emails', 'suppressions']}
      isIncomplete={address === ''}
      run={() => api.suppressions.create({ email_address: address })}
      onDone={() => onClose(`${address} is on the suppression list.`)}
      onClose={() => onClose()}
    >
      <Text>No email of this account is sent to a suppressed address, until it is removed from the list.</Text>
      {addresses.length === 1 ? (
        <Text fw={600}>
          <bdi>{address}</bdi>
        </Text>
      ) : (
        <Radio.Group label="Recipient" value={address} onChange={setAddress}>
          <Stack gap={4} mt={4} mah="40vh" style={{ overflowY: 'auto' }}>
            {addresses.map((value) => (
              <Radio key={value} value={value} label={<bdi>{value}</bdi>} />
            ))}
          </Stack>
        </Radio.Group>
      )}
    </ConfirmDialog>
  )
}
