/** @module Invites somebody to the team; sends an invitation again; revokes one. */
import { Alert, Button, Group, Modal, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { CreateTeamInvitationResult, TeamInvitation } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { useSession } from '../../api/session.tsx'
import { CODE_INPUT, ConfirmButton, DialogFrame, findFieldError, SmallAction, useFields } from '../../parts/form.tsx'
import { quote } from '../../parts/format.ts'
import { CommandBlock } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'

import { type Role, RoleField } from './role-field.tsx'

/** Another invitation of the same address replaces the first. */
const useInvite = () => useChange(api.team.invite, 'team')

export function InviteDialog({ onClose }: { onClose(): void }) {
  const [role, setRole] = useState<Role>('developer')
  const invite = useInvite()
  const { values, field } = useFields({ email: '' }, invite.error)
  const email = values.email.trim()
  if (invite.data) return <InvitedDialog invitation={invite.data.data} onClose={onClose} />
  return (
    <DialogFrame
      title="Invite somebody"
      confirm="Invite"
      work={invite}
      fields={['email', 'role']}
      isIncomplete={email === ''}
      onConfirm={() => invite.mutate({ email, role })}
      onClose={onClose}
    >
      <TextInput
        {...field('email')}
        {...CODE_INPUT}
        label="Email address"
        description="The invitation is a link in a mail to this address. Whoever reads that mail can use it."
        inputMode="email"
        required
        data-autofocus
      />
      <RoleField value={role} onChange={setRole} error={findFieldError(invite.error, 'role')} />
    </DialogFrame>
  )
}

/** What became of the mail. The link itself is in the mail only: it proves who reads the address. */
function InvitedDialog({ invitation, onClose }: { readonly invitation: CreateTeamInvitationResult; onClose(): void }) {
  const { email, email_sent, expires_at } = invitation
  return (
    <Modal opened onClose={onClose} title={email_sent ? 'The invitation is on its way' : 'No mail was sent'}>
      <Stack>
        {email_sent ? (
          <Text>
            A mail with the link goes to <bdi>{email}</bdi>. It is valid until <Time iso={expires_at} isExact />, once.
          </Text>
        ) : (
          <MailMissing {...invitation} />
        )}
        <Group justify="flex-end">
          <Button onClick={onClose} data-autofocus>
            Done
          </Button>
        </Group>
      </Stack>
    </Modal>
  )
}

function MailMissing({ email, role }: CreateTeamInvitationResult) {
  const { account } = useSession()
  return (
    <>
      <Text>
        The invitation of <bdi>{email}</bdi> is stored, but this service has no verified domain from which it could send
        the mail. Verify a domain, then send the invitation again.
      </Text>
      <Text>Or the operator of this server adds the user with this command, which prints a link:</Text>
      <CommandBlock command={`tassis users create ${quote(email)} --role ${role} --account ${account.id}`} />
    </>
  )
}

export function InvitationActions({ invitation }: { readonly invitation: TeamInvitation }) {
  const { email, role } = invitation
  const { role: ownRole } = useSession()
  const ownerReason = role === 'owner' && ownRole !== 'owner' ? 'Only an owner can invite owners.' : undefined
  const invite = useInvite()
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <SmallAction
          size="compact-sm"
          needs="admin"
          reason={ownerReason}
          loading={invite.isPending}
          onClick={() => invite.mutate({ email, role: role as Role })}
          aria-label={`Send again to ${email}`}
        >
          Send again
        </SmallAction>
        <ConfirmButton
          label="Revoke"
          size="compact-sm"
          needs="admin"
          aria-label={`Revoke the invitation of ${email}`}
          title="Revoke this invitation?"
          confirm="Revoke"
          refreshes={['team']}
          run={() => api.team.deleteInvitation(invitation.id)}
        >
          <Text>
            The link that was sent to <bdi>{email}</bdi> becomes invalid immediately.
          </Text>
        </ConfirmButton>
      </Group>
      {invite.error && (
        <Alert color="red" role="alert" p="xs">
          {invite.error.message}
        </Alert>
      )}
      {invite.data && <InvitedDialog invitation={invite.data.data} onClose={invite.reset} />}
    </Stack>
  )
}
