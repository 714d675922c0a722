/** @module Accounts in the operator's lists. */
import { Anchor, Button, Group, Text } from '@mantine/core'
import { Link } from '@tanstack/react-router'

interface AccountLinkProps {
  readonly id: string | null
  readonly name: string | null
}

export const AccountLink = ({ id, name }: AccountLinkProps) =>
  id === null ? (
    <span>{name ?? 'A deleted account'}</span>
  ) : (
    <Anchor component={Link} to="/server/accounts/$id" params={{ id } as never} size="sm">
      <bdi>{name || '(no name)'}</bdi>
    </Anchor>
  )

interface AccountFilterProps {
  readonly id: string | undefined
  onRemove(): void
}

/** The account that a list is limited to. */
export const AccountFilter = ({ id, onRemove }: AccountFilterProps) =>
  id === undefined ? null : (
    <Group gap="xs">
      <Text size="sm">
        Only <AccountLink id={id} name="one account" />
      </Text>
      <Button variant="default" size="compact-xs" onClick={onRemove}>
        Show all accounts
      </Button>
    </Group>
  )
