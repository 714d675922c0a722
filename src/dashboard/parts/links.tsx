/** @module Links to other screens. */
import { Anchor, type AnchorProps } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'

interface LinkProps {
  readonly to: string
  /** Values of the names in the path, such as `$id`. */
  readonly params?: Readonly<Record<string, string>>
  /** The query of the URL; undefined: none. */
  readonly search?: object
  readonly title?: string | undefined
  readonly tabIndex?: number
  readonly target?: string
  readonly 'aria-label'?: string
  readonly children: ReactNode
  onClick?(): void
}

// The paths here are not known to the types of the router.
export const TextLink = ({ to, params, search, children, ...props }: LinkProps & AnchorProps) => (
  <Anchor
    component={Link}
    to={to}
    {...(params && { params: params as never })}
    {...(search && { search: search as never })}
    {...props}
  >
    {children}
  </Anchor>
)

export const SmallLink = (props: LinkProps & AnchorProps) => <TextLink size="sm" {...props} />

export const InlineLink = (props: LinkProps) => <TextLink inherit underline="always" {...props} />

interface NameLinkProps extends Pick<AnchorProps, 'lineClamp'> {
  /** Path, with `$id` for the id. */
  readonly to: string
  readonly id?: string
  readonly name: ReactNode
  readonly title?: string
}

/** The name of a thing in a list, which opens its screen. */
export const NameLink = ({ id, name, ...props }: NameLinkProps) => (
  <SmallLink {...(id !== undefined && { params: { id } })} {...props}>
    <bdi>{name}</bdi>
  </SmallLink>
)
