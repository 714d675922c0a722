/** @module Links to other screens. */
import { Anchor, type AnchorProps } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'

interface LinkProps {
  readonly to: string
  readonly children: ReactNode
}

export const TextLink = ({ to, children, ...looks }: LinkProps & AnchorProps) => (
  <Anchor component={Link} to={to} {...looks}>
    {children}
  </Anchor>
)

export const SmallLink = (props: LinkProps) => <TextLink size="sm" {...props} />

/** Within a sentence. */
export const InlineLink = (props: LinkProps) => <TextLink inherit underline="always" {...props} />

interface NameLinkProps extends Pick<AnchorProps, 'lineClamp'> {
  /** Path, with `$id` for the id. */
  readonly to: string
  readonly id?: string
  readonly name: ReactNode
  readonly title?: string
}

/** The name of a thing in a list, which opens its screen. */
export const NameLink = ({ to, id, name, ...props }: NameLinkProps) => (
  <Anchor component={Link} to={to} params={{ id } as never} size="sm" {...props}>
    <bdi>{name}</bdi>
  </Anchor>
)
