/** @module Invites somebody to the team; sends an invitation again; revokes one. */
import { Button, Group, Modal, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { CreateTeamInvitationRequest, CreateTeamInvitationResult, TeamInvitation } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { useSession } from '../../api/session.tsx'
import { SmallAction } from '../../parts/buttons.tsx'
import { ConfirmButton, ConfirmDialog } from '../../parts/dialog.tsx'
import { quote } from '../../parts/format.ts'
import { Notice } from '../../parts/notice.tsx'
import { CommandBlock } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { useRoleField } from './role-field.tsx'

/** Another invitation of the same address replaces the first. */
export function InviteDialog({ onClose }: { onClose(): void }) {
  const [invitation, setInvitation] = useState<CreateTeamInvitationResult>()
  const role = useRoleField()
  if (invitation) return <InvitedDialog invitation={invitation} onClose={onClose} />
  return (
    <ConfirmDialog
      title="Invite somebody"
      confirm="Invite"
      fields={[
        {
          name: 'email',
          label: 'Email address',
          kind: 'email',
          hint: 'It gets a link by mail, valid for 7 days, once.',
          isRequired: true,
        },
        role,
      ]}
      initial={{ role: 'developer' }}
      refreshes={['team']}
      run={api.team.invite}
      staysOpen
      onDone={({ data }) => setInvitation(data)}
      onClose={onClose}
    />
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
            A mail with the link goes to <bdi>{email}</bdi>. It is valid until <Time iso={expires_at} />, once.
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
  const invite = useChange(api.team.invite, 'team')
  return (
    <Stack gap="xs">
      <Group gap="xs" justify="flex-end" wrap="nowrap">
        <SmallAction
          size="compact-sm"
          needs="admin"
          reason={ownerReason}
          loading={invite.isPending}
          onClick={() => invite.mutate({ email, role: role as CreateTeamInvitationRequest['role'] })}
          aria-label={`Send again to ${email}`}
        >
          Send again
        </SmallAction>
        <ConfirmButton
          label="Remove"
          size="compact-sm"
          needs="admin"
          aria-label={`Remove the invitation of ${email}`}
          title="Remove this invitation?"
          refreshes={['team']}
          run={() => api.team.deleteInvitation(invitation.id)}
        >
          <Text>
            The link that was sent to <bdi>{email}</bdi> becomes invalid immediately.
          </Text>
        </ConfirmButton>
      </Group>
      {invite.error && (
        <Notice tone="bad" isUrgent>
          {invite.error.message}
        </Notice>
      )}
      {invite.data && <InvitedDialog invitation={invite.data.data} onClose={invite.reset} />}
    </Stack>
  )
}
