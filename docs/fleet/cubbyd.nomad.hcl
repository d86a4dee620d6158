# SPDX-License-Identifier: Apache-2.0
# A fleet under Nomad: one cubbyd on each client node. Each client's configuration needs
#   client { meta { cubby_node = "a" } }
# with a name of its own. The task's directory is not the home, so the sandboxes of a task that is
# restarted are adopted by the next one.
job "cubbyd" {
  type = "system"

  constraint {
    attribute = "${meta.cubby_node}"
    operator  = "is_set"
  }

  group "cubbyd" {
    network {
      port "api"   { static = 3000 }
      port "agent" { static = 3001 }
    }

    service {
      provider = "nomad"
      name     = "cubbyd"
      port     = "api"
      check {
        type     = "http"
        path     = "/health"
        interval = "5s"
        timeout  = "2s"
      }
    }

    task "cubbyd" {
      driver      = "raw_exec"
      kill_signal = "SIGUSR1" # leaves the sandboxes running
      config {
        command = "/usr/local/bin/cubbyd"
        args    = ["--keep"]
      }
      env {
        CUBBY_HOME                    = "/var/lib/cubby"
        CUBBY_NODE                    = "${meta.cubby_node}"
        CUBBY_LISTEN                  = "${NOMAD_ADDR_api}"
        CUBBY_AGENT                   = "${NOMAD_ADDR_agent}"
        CUBBY_KEYS                    = "/etc/cubby/keys.json"
        CUBBY_PEERS                   = "/etc/cubby/nodes"
        CUBBY_CREATE_WAIT             = "0"
        CUBBY_TLS_CERT                = "/etc/cubby/node.pem"
        CUBBY_TLS_KEY                 = "/etc/cubby/node.key"
        CUBBY_PEERS_CA                = "/etc/cubby/nodes-ca.pem"
      }
      # Sandboxes are in the task's control group. cubbyd obeys its limit of memory.
      resources {
        cpu        = 1000
        memory     = 1024
        memory_max = -1
      }
    }
  }
}
