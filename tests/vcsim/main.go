// A vSphere server for the tests of the platform esxi: govmomi's simulator, with one template and, for every machine
// that is made from it and started, the address that VMware Tools would report.
//
// It prints one line of JSON (where it listens, the SHA-256 of its certificate, the template) and ends with its input.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

const template = "vtare-template"

func main() {
	mode := flag.String("mode", "vcenter", "what to be: vcenter or esxi")
	address := flag.String("address", "", "what started machines report as their address; nothing where empty")
	flag.Parse()

	model := simulator.VPX()
	if *mode == "esxi" {
		model = simulator.ESX()
	}
	if err := model.Create(); err != nil {
		log.Fatal(err)
	}
	defer model.Remove()
	model.Service.TLS = new(tls.Config)
	// Named, so that it asks for them; else it lets anybody in.
	model.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword("operator", "a password")}
	server := model.Service.NewServer()
	defer server.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client, err := govmomi.NewClient(ctx, server.URL, true)
	if err != nil {
		log.Fatal(err)
	}
	name, err := prepare(ctx, client)
	if err != nil {
		log.Fatal(err)
	}
	if *address != "" {
		go tools(ctx, client, *address)
	}
	digest := sha256.Sum256(server.Certificate().Raw)
	password, _ := server.URL.User.Password()
	told := map[string]string{
		"host": server.URL.Hostname(), "port": server.URL.Port(), "account": server.URL.User.Username(),
		"password": password, "thumbprint": hex.EncodeToString(digest[:]), "template": template, "was": name,
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		log.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// machines lists all virtual machines with what is asked for of them.
func machines(ctx context.Context, client *govmomi.Client, properties []string) ([]mo.VirtualMachine, error) {
	manager := view.NewManager(client.Client)
	all, err := manager.CreateContainerView(ctx, client.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = all.Destroy(ctx) }()
	var found []mo.VirtualMachine
	err = all.Retrieve(ctx, []string{"VirtualMachine"}, properties, &found)
	return found, err
}

// prepare stops the first machine of the model and names it as the template; its old name is returned.
func prepare(ctx context.Context, client *govmomi.Client) (string, error) {
	found, err := machines(ctx, client, []string{"name", "runtime.powerState"})
	if err != nil {
		return "", err
	}
	machine := object.NewVirtualMachine(client.Client, found[0].Reference())
	if found[0].Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff {
		task, err := machine.PowerOff(ctx)
		if err != nil {
			return "", err
		}
		if err := task.Wait(ctx); err != nil {
			return "", err
		}
	}
	task, err := machine.Rename(ctx, template)
	if err != nil {
		return "", err
	}
	return found[0].Name, task.Wait(ctx)
}

// tools gives every started machine of vtare's its address, as VMware Tools inside it would.
func tools(ctx context.Context, client *govmomi.Client, address string) {
	for ctx.Err() == nil {
		found, err := machines(ctx, client, []string{"name", "runtime.powerState", "guest.ipAddress"})
		if err != nil {
			log.Print(err)
		}
		for _, machine := range found {
			started := machine.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn
			known := machine.Guest != nil && machine.Guest.IpAddress == address
			if !started || known || !strings.HasPrefix(machine.Name, "vtare-") {
				continue
			}
			told := types.OptionValue{Key: "SET.guest.ipAddress", Value: address}
			spec := types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{&told}}
			one := object.NewVirtualMachine(client.Client, machine.Reference())
			if task, err := one.Reconfigure(ctx, spec); err == nil {
				_ = task.Wait(ctx)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}
