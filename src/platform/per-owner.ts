/**
 * @module State that a module keeps for an object of another one: for the running service, a database, a message. It is made when it is first asked for
 * and lives as long as its owner, so that two services in one process share nothing.
 */

/** Returns a function that makes the state of an owner once: `const filesOf = perOwner((_: App) => new Map<string, number>())`, then `filesOf(app)`. */
export function perOwner<Owner extends object, State>(make: (owner: Owner) => State): (owner: Owner) => State {
  const states = new WeakMap<Owner, { readonly state: State }>()
  return (owner) => {
    let found = states.get(owner)
    if (!found) {
      found = { state: make(owner) }
      states.set(owner, found)
    }
    return found.state
  }
}
